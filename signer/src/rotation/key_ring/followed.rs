//! Following an object: which spec is in force, and what is shown of it.

use chancery_cluster::error_chain;
use chancery_core::rotation::PlannedStep;
use tracing::info;

use super::Shown;
use super::object::{KeyRingError, KeyRingObject, SpecVersion};
use super::status::Known;
use crate::rotation::config::{RotationConfig, RotationConfigError};

/// An object, and what of it is in force.
#[derive(Debug)]
pub struct FollowedKeyRing {
    object: KeyRingObject,
    /// The spec that was looked at last.
    seen: Option<SpecVersion>,
    /// Why that one is not followed, if it is not.
    refusal: Option<String>,
    is_followed: bool,
}

impl FollowedKeyRing {
    /// The object that a policy names, if it names one. Nothing is asked yet.
    pub async fn open(config: &RotationConfig) -> Result<Option<Self>, KeyRingPolicyError> {
        let Some(at) = &config.key_ring else { return Ok(None) };
        let object = KeyRingObject::open(at, &config.base).await?;
        Ok(Some(Self { object, seen: None, refusal: None, is_followed: false }))
    }

    /// The policy by the spec, where that is a new one that can be kept; or why it is not known or not kept.
    pub async fn follow(&mut self, config: &RotationConfig) -> Result<Option<RotationConfig>, String> {
        let (version, spec) = self.object.spec().await.map_err(|error| error_chain(&error))?;
        if self.seen.as_ref() == Some(&version) {
            return self.refusal.clone().map_or(Ok(None), Err);
        }
        let followed = config.with_spec(spec, &self.object.place());
        let generation = version.generation;
        self.seen = Some(version);
        match followed {
            Ok(followed) => {
                info!(issuer = %config.issuer, place = self.object.place(), generation, "ring: rotated by this spec from now on");
                self.refusal = None;
                self.is_followed = true;
                Ok(Some(followed))
            }
            Err(error) => {
                let why = error_chain(&error);
                self.refusal = Some(why.clone());
                Err(why)
            }
        }
    }

    /// Whether there is a spec that is in force.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Writes the status, if it has changed.
    pub(in crate::rotation) async fn show(
        &mut self,
        config: &RotationConfig,
        shown: Shown<'_>,
    ) -> Result<(), String> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let known = Known {
            ring: shown.ring,
            policy: &config.policy,
            plan: shown.plan,
            calendar: shown.calendar,
            generation: seen.generation,
            refusal: self.refusal.as_deref(),
        };
        self.object.report(&known).await.map_err(|error| error_chain(&error))
    }

    /// Tells of a step that this process has taken.
    pub async fn tell(&self, planned: &PlannedStep) -> Result<(), String> {
        self.object.tell(planned).await.map_err(|error| error_chain(&error))
    }
}

/// The policy of whoever follows a ring and does not rotate it: by the spec of the object that it names, if it names one.
#[derive(Debug)]
pub struct PolicyInForce {
    file: RotationConfig,
    object: Option<KeyRingObject>,
    /// The last spec that can be kept.
    kept: Option<(SpecVersion, RotationConfig)>,
}

impl PolicyInForce {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// When the cluster of the object cannot be reached by what is configured.
    pub async fn open(file: RotationConfig) -> Result<Self, KeyRingPolicyError> {
        let object = match &file.key_ring {
            Some(at) => Some(KeyRingObject::open(at, &file.base).await?),
            None => None,
        };
        Ok(Self { file, object, kept: None })
    }

    /// Takes over what the owner of the object has changed. What cannot be read or kept leaves the last good spec in force:
    /// whoever rotates says it.
    ///
    /// # Errors
    /// While there was no good one.
    pub async fn look(&mut self) -> Result<(), KeyRingPolicyError> {
        let Some(object) = &mut self.object else { return Ok(()) };
        let read = match object.spec().await {
            Ok((version, _)) if self.kept.as_ref().is_some_and(|(kept, _)| *kept == version) => return Ok(()),
            Ok((version, spec)) => {
                let followed = self.file.with_spec(spec, &object.place());
                followed.map(|policy| (version, policy)).map_err(KeyRingPolicyError::from)
            }
            Err(error) => Err(error.into()),
        };
        match read {
            Ok(kept) => self.kept = Some(kept),
            Err(error) if self.kept.is_none() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// The policy that is in force.
    pub fn now(&self) -> &RotationConfig {
        self.kept.as_ref().map_or(&self.file, |(_, policy)| policy)
    }
}

/// The policy as it is in force: by the spec of the object that it names, if it names one.
///
/// # Errors
/// When that cannot be read, or not be kept.
pub async fn resolved(config: RotationConfig) -> Result<RotationConfig, KeyRingPolicyError> {
    let Some(at) = &config.key_ring else { return Ok(config) };
    let mut object = KeyRingObject::open(at, &config.base).await?;
    let (_, spec) = object.spec().await?;
    Ok(config.with_spec(spec, &object.place())?)
}

/// Why there is no policy by an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRingPolicyError {
    /// It cannot be read.
    #[error(transparent)]
    Object(#[from] KeyRingError),
    /// What it says cannot be kept.
    #[error(transparent)]
    Spec(#[from] RotationConfigError),
}
