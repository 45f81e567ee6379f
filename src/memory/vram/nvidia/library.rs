//! NVIDIA's library itself, loaded at run time under either of its names.

use std::ffi::OsStr;

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;

use super::{Library, LibraryError};

/// The names, in the order in which they are tried: WSL has only the first, some installations
/// only the second.
#[cfg(target_os = "linux")]
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];
#[cfg(windows)]
const NAMES: [&str; 2] = [
    "nvml.dll",
    "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll",
];

/// Loads the library and wakes the driver.
pub(super) fn open() -> Result<Box<dyn Library>, LibraryError> {
    let mut last = LibraryError::Absent;
    for name in NAMES {
        match Nvml::builder().lib_path(OsStr::new(name)).init() {
            Ok(nvml) => return Ok(Box::new(nvml)),
            Err(NvmlError::LibloadingError(_)) => {}
            Err(error) => last = LibraryError::Unusable(error.to_string()),
        }
    }
    Err(last)
}

impl Library for Nvml {
    fn count(&self) -> Result<u32, LibraryError> {
        self.device_count().map_err(told)
    }

    fn name(&self, card: u32) -> Result<String, LibraryError> {
        let device = self.device_by_index(card).map_err(told)?;
        device.name().map_err(told)
    }

    fn memory(&self, card: u32) -> Result<(u64, u64), LibraryError> {
        let device = self.device_by_index(card).map_err(told)?;
        let memory = device.memory_info().map_err(told)?;
        Ok((memory.total, memory.free))
    }

    fn processes(&self, card: u32) -> Result<Vec<(u32, Option<u64>)>, LibraryError> {
        let device = self.device_by_index(card).map_err(told)?;
        let compute = device.running_compute_processes();
        // A server that draws through Vulkan counts as graphics.
        let graphics = device.running_graphics_processes();
        if let (Err(error), Err(_)) = (&compute, &graphics) {
            return Err(LibraryError::Call(error.to_string()));
        }
        let mut all: Vec<(u32, Option<u64>)> = Vec::new();
        let processes = compute.unwrap_or_default().into_iter();
        for process in processes.chain(graphics.unwrap_or_default()) {
            let bytes = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            // One that computes and draws is listed twice with the same bytes.
            if !all.iter().any(|(pid, _)| *pid == process.pid) {
                all.push((process.pid, bytes));
            }
        }
        Ok(all)
    }
}

fn told(error: NvmlError) -> LibraryError {
    match error {
        NvmlError::NotSupported => LibraryError::NotSupported,
        NvmlError::GpuLost => LibraryError::Lost,
        other => LibraryError::Call(other.to_string()),
    }
}
