//! Default values of both presets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::limits::Limits;
use super::settings::{
    Access, Counting, Degrade, Health, Level, Log, Power, Pressure, Queue, Relay, Sensitivity,
    Settings, Timeouts, Trim, Upstream, Window,
};
use super::values::{BaseUrl, Context, Preset};
use crate::refusal::FullStatus;

/// The gateway's own port; 11434 is Ollama's, and 11435 is used by other tools.
const PORT: u16 = 11_411;

impl Settings {
    /// The settings a preset starts from, before file, environment and flags.
    pub fn of(preset: Preset) -> Self {
        match preset {
            Preset::Balanced => Self::balanced(),
            Preset::Strict => Self::strict(),
        }
    }

    fn balanced() -> Self {
        Self {
            preset: Preset::Balanced,
            listen: vec![
                SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
                SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), PORT),
            ],
            upstream: Upstream {
                base_url: BaseUrl::Auto,
                api_key: None,
                model: None,
                slots: 1,
            },
            queue: Queue {
                max_waiting: 4,
                max_wait: Duration::from_secs(600),
                max_wait_whole: Duration::from_secs(240),
                full_status: FullStatus::Unavailable,
            },
            health: Health {
                idle_interval: Duration::from_secs(10),
                cooldown: Duration::from_millis(3000),
            },
            degrade: Degrade { ladder: true },
            window: Window {
                context: Context::Auto,
                fallback: 4096,
                trim: Trim::Steady,
                counting: Counting::Auto,
            },
            timeouts: Timeouts {
                first_byte: Duration::from_secs(300),
                stall: Duration::from_secs(60),
                total: Duration::from_secs(600),
                loading: Duration::from_secs(330),
            },
            pressure: Pressure {
                sensitivity: Sensitivity::Normal,
                gpu: true,
            },
            power: Power { keep_awake: false },
            relay: Relay {
                commit_after: Some(Duration::from_secs(10)),
            },
            access: Access {
                allowed_hosts: Vec::new(),
                allowed_origins: Vec::new(),
                require_key: false,
                keys: Vec::new(),
                allow_admin: false,
                block_remote_models: false,
            },
            log: Log {
                level: Level::Info,
                record: true,
            },
            limits: Limits::default(),
        }
    }

    /// What differs from `balanced`, and nothing else.
    fn strict() -> Self {
        let mut settings = Self::balanced();
        settings.preset = Preset::Strict;
        settings.upstream.base_url = BaseUrl::article();
        settings.upstream.model = Some("llama3.2".to_owned());
        settings.window.counting = Counting::Scalar;
        settings.timeouts.first_byte = Duration::from_secs(120);
        settings.timeouts.total = Duration::from_secs(120);
        settings.relay.commit_after = None;
        settings.limits = Limits::of(Preset::Strict, settings.health.cooldown);
        settings
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::balanced()
    }
}
