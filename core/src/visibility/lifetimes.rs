//! How long answers that were served may still be held by caches.

use std::time::Duration;

use super::proven::{Interval, ProvenTime};

/// No lifetime is taken for longer, whatever a header says: a year, which HTTP's own specification used to call "never
/// expires" (RFC 2616 section 14.21). `max-age` itself goes up to 2^31 s, 68 years (RFC 9111 section 1.2.2), and no
/// cache is known that does not drop what nobody asks for within a fraction of that.
pub const LONGEST_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// The most that must pass without a break, beside what the longest cache lifetime needs: no relying party that looks
/// again at all is known to keep a set of its own accord for longer than 15 minutes. A wait beyond this hour is
/// caution, and an interval without observation does not take away what it has seen.
pub const UNBROKEN_AT_MOST: Duration = Duration::from_secs(3600);

/// How many are told apart. Of more, neighbours become one: the longer of the two times, as lately served as the
/// shorter one.
const KEPT: usize = 8;

/// The lifetimes that were served and may matter still, the longest first and served the longest ago.
///
/// Each is forgotten once, in observations that did not see it or a longer one served, as much time has passed as any
/// relying party may have kept an answer that came with it, see [`ServedLifetime::kept_at_most`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CacheLifetimes(Vec<ServedLifetime>);

/// A lifetime, and for how long it was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServedLifetime {
    pub lifetime: Duration,
    pub unserved: ProvenTime,
}

impl ServedLifetime {
    /// How long after it was served last an answer of this lifetime may be kept: a cache that we do not see may have
    /// handed it out, header and all, until its own time was over, to a party that keeps what it gets for that time,
    /// or of its own accord for `own`, whichever is longer.
    pub fn kept_at_most(&self, own: Duration) -> Duration {
        self.lifetime.saturating_add(self.lifetime.max(own))
    }

    /// Whether nobody keeps an answer of this lifetime any more who keeps one for `own` of its own accord.
    pub fn is_over(&self, own: Duration) -> bool {
        self.unserved.total >= self.kept_at_most(own)
    }
}

impl CacheLifetimes {
    /// Those that were written down, or that several views had, in any order.
    pub fn collect(lifetimes: impl IntoIterator<Item = ServedLifetime>) -> Self {
        let mut all: Vec<ServedLifetime> = lifetimes.into_iter().collect();
        all.sort_by_key(|kept| (std::cmp::Reverse(kept.lifetime), kept.unserved.total));
        // Whoever waits for a longer one that was served as lately waits for this one.
        let mut latest = None;
        all.retain(|kept| {
            let matters = latest.is_none_or(|latest| kept.unserved.total < latest);
            if matters {
                latest = Some(kept.unserved.total);
            }
            matters
        });
        let mut collected = Self(all);
        collected.limit();
        collected
    }

    /// The longest time for which an answer may still be held because of its header.
    pub fn longest(&self) -> Option<Duration> {
        self.0.iter().find(|kept| !kept.is_over(Duration::ZERO)).map(|longest| longest.lifetime)
    }

    pub fn iter(&self) -> impl Iterator<Item = &ServedLifetime> {
        self.0.iter()
    }

    /// Takes no lifetime for longer than `limit`.
    pub fn limit_to(&mut self, limit: Duration) {
        let limited =
            self.0.iter().map(|kept| ServedLifetime { lifetime: kept.lifetime.min(limit), ..*kept });
        *self = Self::collect(limited.collect::<Vec<_>>());
        self.forget();
    }

    /// Takes the longest lifetime that an observation saw served. That the longer ones were not served is proven by a
    /// complete observation alone, which has an interval.
    pub fn observe(&mut self, served: Option<Duration>, complete: Option<Interval>) {
        if let Some(lifetime) = served {
            self.0.retain(|kept| kept.lifetime > lifetime);
            self.0.push(ServedLifetime { lifetime, unserved: ProvenTime::default() });
            self.limit();
        }
        let Some(interval) = complete else { return };
        for kept in self.0.iter_mut().filter(|kept| Some(kept.lifetime) > served) {
            kept.unserved.confirm(interval);
        }
        self.forget();
    }

    /// Lets time pass in which nobody can have served any of them.
    pub fn pass(&mut self, elapsed: Duration) {
        for kept in &mut self.0 {
            kept.unserved.total = kept.unserved.total.saturating_add(elapsed);
        }
        self.forget();
    }

    fn limit(&mut self) {
        while self.0.len() > KEPT {
            let shortest = self.0.pop();
            if let (Some(shortest), Some(longer)) = (shortest, self.0.last_mut()) {
                longer.unserved = shortest.unserved;
            }
        }
    }

    fn forget(&mut self) {
        self.0.retain(|kept| !kept.is_over(UNBROKEN_AT_MOST));
    }
}
