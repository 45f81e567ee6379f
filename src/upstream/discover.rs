//! `base_url = "auto"`: the model servers on the ports that everybody uses.
//!
//! All ports are asked at once, without a key, on 127.0.0.1 and then on `[::1]`. A gateway of our
//! own is never found.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;

use super::base_url::{self, Root};
use super::client::{Client, OpenError};
use crate::upstream::detect::{self, Identified, Identity};

/// The ports of Ollama, LM Studio and llama.cpp, in the order of preference.
pub const PORTS: [u16; 3] = [11434, 1234, 8080];

/// The limit for everything that one address is asked.
pub(super) const LIMIT: Duration = Duration::from_secs(2);

/// A model server on this machine that proved what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub root: Root,
    /// What it is.
    pub identity: Identity,
}

/// Looks at `ports`; the answers stand in the order of the ports, one for each at most.
///
/// `own` are addresses of this gateway and are not asked at all.
///
/// # Errors
///
/// The HTTP client cannot be built.
pub async fn discover(ports: &[u16], own: &[SocketAddr]) -> Result<Vec<Found>, OpenError> {
    let mut looks = JoinSet::new();
    for (place, port) in ports.iter().copied().enumerate() {
        let roots: Vec<Root> = base_url::localhost(port)
            .into_iter()
            .map(Root::at)
            .filter(|root| !root.points_at(own))
            .collect();
        let Some(first) = roots.first() else {
            continue;
        };
        let client = Client::open(first.clone(), None, LIMIT)?;
        looks.spawn(async move { (place, look(client, roots).await) });
    }
    let mut found = Vec::new();
    while let Some(look) = looks.join_next().await {
        if let Ok((place, Some(server))) = look {
            found.push((place, server));
        }
    }
    found.sort_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, server)| server).collect())
}

/// Both families at once, so that a silent one costs the other nothing; the first in order wins.
async fn look(client: Client, roots: Vec<Root>) -> Option<Found> {
    let mut roots = roots.into_iter();
    let (first, second) = (roots.next()?, roots.next());
    let ask = async |root: Root| match detect::identify(&client.keyless(root.clone()), LIMIT).await
    {
        Identified::Server(identity) => Some(Found { root, identity }),
        Identified::OneSlot | Identified::Unproven | Identified::Silent(_) => None,
    };
    let (first, second) = tokio::join!(ask(first), async {
        match second {
            Some(root) => ask(root).await,
            None => None,
        }
    });
    first.or(second)
}
