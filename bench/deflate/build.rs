//! Compiles slz, the encoder inside HAProxy, where `SLZ_SOURCE` says where HAProxy's source is.

use std::path::Path;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(slz)");
    println!("cargo::rerun-if-env-changed=SLZ_SOURCE");
    let Ok(source) = std::env::var("SLZ_SOURCE") else { return };
    let source = Path::new(&source);
    cc::Build::new()
        .file(source.join("src/slz.c"))
        .include(source.join("include"))
        .opt_level(3)
        .warnings(false)
        // As HAProxy compiles it.
        .flag("-fwrapv")
        .compile("slz");
    println!("cargo::rustc-cfg=slz");
}
