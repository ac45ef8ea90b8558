//! Endless data: an object in the place of a document of ours that has no end worth reading.

use anyhow::{Context as _, Result, ensure};
use chancery_core::publication::Blocked;
use chancery_core::{DocumentKind, Marker};
use chancery_publisher::DocumentStore;
use chancery_publisher::publish::{PublishError, observe};
use chancery_publisher::store::LARGEST_OBJECT;

use super::{Keys, Writer, both, kids, kinds, put};

/// Something endless in the place of each document, as a marker of ours or of nobody says: it is not read to its end, and
/// written over within one period, also after a restart.
pub(super) async fn after_our_first_write(store: &dyn DocumentStore, keys: &Keys) -> Result<()> {
    let mut writer = Writer::new(store);
    writer.observes(&[&keys.old]);
    writer.period().await?;
    let endless = [&both(keys)?[..], &vec![b' '; LARGEST_OBJECT]].concat();
    for kind in DocumentKind::ALL {
        let ours = writer.object(kind).await?;
        put(store, kind, &endless, ours.marker.as_ref().context("a marker")?).await?;
        let refused = observe(store).await.err().context("it was read whole")?.to_string();
        ensure!(refused.contains(&LARGEST_OBJECT.to_string()), "{refused}");
        let (outcome, drift) = writer.period().await?;
        assert_eq!(outcome.written, [kind]);
        assert_eq!(kinds(&drift).first(), Some(&"Oversize"), "{drift:?}");
        assert_eq!(writer.object(kind).await?.bytes, ours.bytes);
    }
    put(store, DocumentKind::Jwks, &endless, &Marker::of("us".parse()?)).await?;
    writer.restarts();
    writer.observes(&[&keys.old]);
    assert_eq!(writer.period().await?.0.written, [DocumentKind::Jwks], "while nobody looked");
    assert_eq!(writer.shown().await?, kids(&[&keys.old]));
    Ok(())
}

/// Where our state has never written, it may be anybody's: nothing is written, and it is named.
pub(super) async fn at_first_contact(store: &dyn DocumentStore, keys: &Keys) -> Result<()> {
    let mut predecessor = Writer::new(store);
    predecessor.observes(&[&keys.old]);
    predecessor.period().await?;
    let ours = predecessor.object(DocumentKind::Jwks).await?.marker.context("a marker")?;
    let endless = vec![b' '; LARGEST_OBJECT + 1];
    for marker in [Marker { proof: None, ..ours.clone() }, ours] {
        put(store, DocumentKind::Jwks, &endless, &marker).await?;
        let mut newcomer = Writer::new(store);
        newcomer.observes(&[&keys.old]);
        let blocked = newcomer.try_period().await.err().context("it was written over")?;
        ensure!(
            matches!(&blocked, PublishError::Blocked { blocked: Blocked::Oversize { .. }, .. }),
            "{blocked}"
        );
        ensure!(blocked.to_string().contains("the JWKS has more than"), "{blocked}");
    }
    Ok(())
}
