//! The two presets, the only place that names default values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::base_url::BaseUrl;
use super::settings::{
    Access, Context, Counting, Degrade, Health, Level, Log, Power, Preset, Pressure, Queue, Relay,
    Settings, Timeouts, Trim, Upstream, Window,
};
use crate::refusal::FullStatus;

/// The gateway's own port; 11434 is Ollama's and 11435 is used by other tools.
const PORT: u16 = 11_411;

const MIB: u64 = 1024 * 1024;

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
                max_bytes: 256 * MIB,
                full_status: FullStatus::Unavailable,
            },
            health: Health {
                timeout: Duration::from_millis(2000),
                fresh: Duration::from_millis(1000),
                idle_interval: Duration::from_secs(10),
                cooldown: Duration::from_millis(3000),
                cooldown_max: Duration::from_millis(15_000),
            },
            degrade: Degrade { ladder: true },
            window: Window {
                context: Context::Auto,
                fallback: 4096,
                margin: 32,
                trim: Trim::Steady,
                counting: Counting::Auto,
            },
            timeouts: Timeouts {
                connect: Duration::from_millis(2000),
                first_byte: Duration::from_secs(300),
                stall: Duration::from_secs(60),
                total: Duration::from_secs(600),
                loading: Duration::from_secs(330),
                write_idle: Duration::from_secs(60),
                header: Duration::from_secs(10),
                body_idle: Duration::from_secs(30),
                shutdown: Duration::from_secs(3),
            },
            pressure: Pressure {
                interval: Duration::from_secs(2),
                ram_elevated_percent: 15,
                ram_elevated: 3072 * MIB,
                ram_high_percent: 8,
                ram_high: 1536 * MIB,
                ram_critical_percent: 4,
                ram_critical: 600 * MIB,
                stall_percent: 10,
                vram_elevated: 700 * MIB,
                vram_high: 400 * MIB,
                vram_fall: 256 * MIB,
                rise_readings: 2,
                fall_quiet: Duration::from_secs(30),
                critical_holds: Duration::from_secs(60),
            },
            power: Power {
                slow_on_battery: false,
                keep_awake: false,
            },
            relay: Relay {
                commit_after: Some(Duration::from_secs(10)),
                hold_bytes: 16 * MIB,
            },
            access: Access {
                allowed_hosts: Vec::new(),
                allowed_origins: Vec::new(),
                require_key: false,
                keys: Vec::new(),
                allow_admin: false,
                block_remote_models: false,
                max_body_bytes: 64 * MIB,
                max_upload_bytes: 256 * MIB,
                max_connections: 256,
            },
            log: Log {
                level: Level::Info,
                record: true,
            },
        }
    }

    /// What differs from `balanced`, and nothing else.
    fn strict() -> Self {
        let mut settings = Self::balanced();
        settings.preset = Preset::Strict;
        settings.upstream.base_url = BaseUrl::article();
        settings.upstream.model = Some("llama3.2".to_owned());
        settings.health.fresh = Duration::ZERO;
        settings.health.cooldown_max = settings.health.cooldown;
        settings.window.counting = Counting::Scalar;
        settings.timeouts.first_byte = Duration::from_secs(120);
        settings.timeouts.total = Duration::from_secs(120);
        settings.relay.commit_after = None;
        settings
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::balanced()
    }
}
