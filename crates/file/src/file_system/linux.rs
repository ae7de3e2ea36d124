//! Checks that a file system is local to this machine.
//!
//! Locks and shared memory (SQLite's -shm) may not reach other machines on a file system that
//! several share, or that a daemon serves: there would be two holders, or a corrupt file.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, major, minor, statx};

use crate::error::FileError;

/// Refuses a path on a file system that is not local.
pub(crate) fn check(path: &Path) -> Result<(), FileError> {
    let kind = rustix::fs::statfs(path)
        .map_err(|error| FileError::io("look at the file system of", path, &error.into()))?
        .f_type;
    // Only the low half: some platforms sign-extend magic numbers above 2³¹.
    let Some(shared) = judge(kind as u32, || mounted_as(path)) else { return Ok(()) };
    Err(FileError::lasting(format_args!(
        "{} lies on {shared}, where the locks of SQLite are not safe: use a directory on a disk of this machine, or a server",
        path.display()
    )))
}

/// Returns true if something is mounted at exactly this path, even from the same file system.
pub(crate) fn is_mounted(path: &Path) -> Result<bool, FileError> {
    if let Ok(found) = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty())
        && found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
    {
        return Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // Before Linux 5.8, and where statx is forbidden.
    let table = Path::new("/proc/self/mountinfo");
    let mounts = std::fs::read(table).map_err(|error| FileError::io("read", table, &error))?;
    let path = path.canonicalize().map_err(|error| FileError::io("look at", path, &error))?;
    Ok(is_mount_point(&mounts, path.as_os_str().as_bytes()))
}

/// True if a path is the fifth word, with escapes, of a line of `/proc/self/mountinfo`.
fn is_mount_point(mounts: &[u8], path: &[u8]) -> bool {
    let mut written = Vec::new();
    for byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => written.extend(format!("\\{byte:03o}").into_bytes()),
            _ => written.push(*byte),
        }
    }
    mounts.split(|byte| *byte == b'\n').any(|line| line.split(|byte| *byte == b' ').nth(4) == Some(&*written))
}

/// The name of the file system if it is to be refused. `fuse` returns the type of one of FUSE's.
fn judge(kind: u32, fuse: impl FnOnce() -> Option<String>) -> Option<String> {
    /// From `linux/magic.h`, from file systems outside the kernel, and those that `stat.c` of GNU
    /// coreutils calls remote. Some can also serve one machine alone, but their number does not say
    /// so.
    const SHARED: [(u32, &str); 24] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB"),
        (0x0102_1997, "9P"),
        (0x00c3_6400, "Ceph"),
        (0x5346_414f, "AFS"),
        (0x6b41_4653, "AFS"),
        (0x7375_7245, "Coda"),
        (0x0bd0_0bd0, "Lustre"),
        (0x0116_1970, "GFS2"),
        (0x7461_636f, "OCFS2"),
        (0x4750_4653, "GPFS"),
        (0x1983_0326, "BeeGFS"),
        (0xaad7_aaea, "PanFS"),
        (0x2003_0528, "OrangeFS"),
        (0x564c, "NCP"),
        (0xbacb_acbc, "VMware shared folders"),
        (0x786f_4256, "VirtualBox shared folders"),
        (0x7c7c_6673, "Parallels shared folders"),
        (0xbeef_dead, "StorNext"),
        (0x6163_6673, "ACFS"),
        (0xa501_fcf5, "VxFS"),
        (0x0131_11a8, "IBRIX"),
    ];
    const FUSE: u32 = 0x6573_5546;
    if kind == FUSE {
        let fuse = fuse();
        let own = fuse.as_deref().is_some_and(is_own_fuse);
        return (!own).then(|| fuse.unwrap_or_else(|| "a FUSE file system of unknown kind".into()));
    }
    SHARED.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| (*name).into())
}

/// True if a FUSE file system keeps its files on this machine. Too many do not (sshfs, s3fs, rclone
/// …), so the list contains those that do.
fn is_own_fuse(kind: &str) -> bool {
    const OWN: [&str; 8] = [
        "fuseblk",
        "fuse.fuse-overlayfs",
        "fuse.bindfs",
        "fuse.gocryptfs",
        "fuse.encfs",
        "fuse.ntfs-3g",
        "fuse.exfat",
        "fuse.fuse2fs",
    ];
    OWN.contains(&kind)
}

/// The type of the file system of a path, in the mount table.
fn mounted_as(path: &Path) -> Option<String> {
    let device = rustix::fs::stat(path).ok()?.st_dev;
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    kind_in(&table, major(device), minor(device))
}

/// A device in `/proc/self/mountinfo` is the third word, and its type follows a dash.
fn kind_in(table: &str, major: u32, minor: u32) -> Option<String> {
    let device = format!("{major}:{minor}");
    table.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let kind = source.split(' ').next()?;
        (mount.split(' ').nth(2)? == device).then(|| kind.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
40 27 0:51 / /mnt/far rw,nosuid shared:7 - fuse.sshfs me@host:/ rw,user_id=1000
41 27 0:52 / /var/lib/merged rw - fuse.fuse-overlayfs overlay rw
42 27 8:17 / /mnt/usb rw - fuseblk /dev/sdb1 rw
";

    #[test]
    fn file_systems_of_several_machines_are_refused_by_name() {
        for (kind, name) in [
            (0x6969, "NFS"),
            (0xfe53_4d42, "SMB"),
            (0x0102_1997, "9P"),
            (0x00c3_6400, "Ceph"),
            (0xbeef_dead, "StorNext"),
        ] {
            assert_eq!(judge(kind, || unreachable!()).as_deref(), Some(name));
        }
    }

    #[test]
    fn ext4_xfs_btrfs_tmpfs_and_overlay_are_this_machines_own() {
        for kind in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(judge(kind, || unreachable!()), None);
        }
    }

    #[test]
    fn a_fuse_is_judged_by_what_is_mounted_there() {
        let judged = |minor, major| judge(0x6573_5546, || kind_in(TABLE, major, minor));
        assert_eq!(judged(51, 0).as_deref(), Some("fuse.sshfs"));
        assert_eq!(judged(52, 0), None);
        assert_eq!(judged(17, 8), None);
        assert_eq!(judged(99, 0).as_deref(), Some("a FUSE file system of unknown kind"));
    }

    #[test]
    fn a_mount_point_with_any_name_differs_from_the_directories_below_it() {
        let table = b"22 27 0:21 / /proc rw - proc proc rw\n40 27 0:51 /a /srv/my\\040file.db rw - ext4 /dev/vda rw\n";
        for (path, is_one) in
            [("/proc", true), ("/proc/self", false), ("/srv/my file.db", true), ("/srv", false)]
        {
            assert_eq!(is_mount_point(table, path.as_bytes()), is_one, "{path}");
        }
    }

    #[test]
    fn the_mount_table_of_this_machine_is_understood() {
        assert_eq!(mounted_as(Path::new("/proc")).as_deref(), Some("proc"));
    }
}
