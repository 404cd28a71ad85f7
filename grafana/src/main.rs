//! Writes the dashboards beside this package: `make dashboards`.

use std::{io, path::Path};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards");
    for (file, dashboard) in interrex_dashboards::dashboards() {
        std::fs::write(folder.join(file), interrex_dashboards::text(&dashboard))?;
    }
    Ok(())
}
