//! Relative paths of a configuration start at its folder.

use std::path::{Path, PathBuf};

use super::Config;

impl Config {
    /// Sources keep their own paths: they are opened with the folder at hand.
    pub(super) fn start_paths_at(&mut self, folder: &Path) {
        let start = |path: &mut PathBuf| *path = folder.join(&*path);
        for issuer in &mut self.issuers {
            issuer.value.verify.ca.iter_mut().for_each(start);
            for target in &mut issuer.value.targets {
                target.value.to.directory.iter_mut().for_each(|directory| start(&mut directory.path));
                let s3 = target.value.to.s3.iter_mut();
                s3.filter_map(|s3| s3.credentials_file.as_mut()).for_each(start);
                let azure = target.value.to.azure_blob.iter_mut();
                azure
                    .flat_map(|azure| [&mut azure.token_file, &mut azure.sas_file])
                    .flatten()
                    .for_each(start);
                let gcs = target.value.to.gcs.iter_mut();
                gcs.filter_map(|gcs| gcs.credentials_file.as_mut()).for_each(start);
            }
        }
        for registration in self.issuers.iter_mut().flat_map(|issuer| &mut issuer.value.registrations) {
            registration.value.start_paths_at(folder);
        }
        for sink in self.issuers.iter_mut().flat_map(|issuer| &mut issuer.value.sinks) {
            sink.value.start_paths_at(folder);
        }
        for serve in &mut self.serve {
            serve.value = serve.value.clone().below(folder);
        }
        let resources = self.resources.iter_mut().map(|resources| &mut resources.value);
        resources
            .flat_map(|resources| resources.directory.iter_mut().chain(&mut resources.ca))
            .for_each(start);
        self.writer_key_file.iter_mut().for_each(start);
        self.state.iter_mut().filter_map(|state| state.value.directory.as_mut()).for_each(start);
    }
}
