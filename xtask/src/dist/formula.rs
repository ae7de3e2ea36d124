//! The formula for Homebrew, which installs from the archive.

use super::{deb::SUMMARY, release::Release};

/// The text of the formula. `base` is the address of the archive's directory, and `sum` the
/// archive's checksum.
pub(super) fn text(release: &Release, base: &str, sum: &str) -> String {
    // Homebrew's style: no article, and a capital letter.
    let summary = SUMMARY.replacen('d', "D", 1);
    format!(
        r##"class Leasehold < Formula
  desc "{summary}"
  url "{base}/{}.tar.gz"
  version "{}"
  sha256 "{sum}"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on arch: :{}
  depends_on :linux

  def install
    bin.install "leasehold"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "bash/leasehold"
    zsh_completion.install "zsh/_leasehold"
    fish_completion.install "fish/leasehold.fish"
    doc.install "guide.md", "operating.md"
  end

  test do
    store = "file:#{{testpath}}/leases.db"
    shell_output("#{{bin}}/leasehold run --store #{{store}} formula -- sh -c 'exit 3'", 3)
  end
end
"##,
        release.name(),
        release.version,
        if release.platform.rust == "x86_64" { "x86_64" } else { "arm64" },
    )
}
