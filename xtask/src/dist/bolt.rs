//! BOLT: after linking, hot code is laid out together by what ran in another training.

use super::{build, files, training};
use crate::{debian, program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// BOLT moves functions only where the linker has kept its relocations.
pub(super) const KEEP_RELOCATIONS: &str = "-Clink-arg=-Wl,--emit-relocs";

/// The orders of blocks and functions that BOLT's manual gives for large servers.
const LAYOUT: [&str; 8] = [
    "-reorder-blocks=ext-tsp",
    "-reorder-functions=cdsort",
    "-split-functions",
    "-split-all-cold",
    "-split-eh",
    "-icf=1",
    "-update-debug-sections",
    "-dyno-stats",
];

pub(super) struct Tools {
    bolt: PathBuf,
    merge: PathBuf,
}

impl Tools {
    pub(super) fn find() -> Result<Self, String> {
        let version = build::llvm()?;
        // The symbols of what BOLT makes are taken off by LLVM's tool.
        debian::need(&format!("llvm-objcopy-{version}"), &format!("llvm-{version}"))?;
        let tool = |name: &str| debian::need(&format!("{name}-{version}"), &format!("bolt-{version}"));
        Ok(Self { bolt: tool("llvm-bolt")?, merge: tool("merge-fdata")? })
    }

    /// Counts, trains and lays out anew; the binary that came of it.
    pub(super) fn optimise(&self, built: &Path, folder: &Path) -> Result<PathBuf, String> {
        let counts = folder.join("branches");
        files::empty(&counts)?;
        let (counting, merged) = (folder.join("weir.counting"), folder.join("weir.fdata"));
        let mut instrument = Command::new(&self.bolt);
        instrument.arg(built).args(["-instrument", "--instrumentation-file-append-pid"]);
        instrument.arg(format!("--instrumentation-file={}", counts.join("branches").display()));
        program::output(instrument.arg("-o").arg(&counting))?;
        training::run(&counting)?;
        program::output(Command::new(&self.merge).args(files::listed(&counts)?).arg("-o").arg(&merged))?;
        let laid_out = folder.join("weir.bolt");
        let mut layout = Command::new(&self.bolt);
        layout.arg(built).arg(format!("-data={}", merged.display())).args(LAYOUT);
        program::output(layout.arg("-o").arg(&laid_out))?;
        Ok(laid_out)
    }
}
