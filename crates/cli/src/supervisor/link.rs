//! The connection between us and the supervisor: a pair of sockets that keep records apart. The
//! connection ends when either side ends, however that died. The supervisor's end of it is its
//! stdin, so that no descriptor needs a number.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};

use super::kernel::{BEYOND_RECORD, RECEIVES, SENDS, received};
use super::messages::{Order, SupervisorReport};

/// The descriptors that the supervisor gets with the first order.
#[derive(Debug)]
pub(super) struct InheritedFds {
    /// Our stdin, for the command; the supervisor's own stdin is the connection.
    pub(super) stdin: OwnedFd,
    /// By how much the lease's end became later.
    pub(super) more: OwnedFd,
    /// A store in a file ends our leases with our process; while the supervisor has these open, it
    /// does not.
    pub(super) lifelines: Vec<OwnedFd>,
}

/// The most descriptors that the kernel takes with one message (`SCM_MAX_FD`).
const MOST_LENT: usize = 253;

/// Sends the first order, with our stdin, the supervisor's end of a counter, and the lifelines.
pub(crate) fn begin(
    link: impl AsFd,
    order: Order,
    more: impl AsFd,
    lifelines: &[OwnedFd],
) -> rustix::io::Result<()> {
    let stdin = io::stdin();
    let lifelines = lifelines.iter().map(AsFd::as_fd);
    let lent: Vec<_> = [stdin.as_fd(), more.as_fd()].into_iter().chain(lifelines).take(MOST_LENT).collect();
    lend(link, &order.to_bytes(), &lent)
}

/// Receives the message of [`begin`]. `None` if the sender has ended.
pub(super) fn accept(link: impl AsFd) -> Option<(Order, InheritedFds)> {
    let mut bytes = [0; Order::LENGTH + BEYOND_RECORD];
    let (length, mut lent) = borrow(link, &mut bytes)?;
    let (stdin, more, lifelines) = (lent.next()?, lent.next()?, lent.collect());
    Some((Order::parse(&bytes[..length])?, InheritedFds { stdin, more, lifelines }))
}

/// Lends the launcher the command's stdin: its own is the connection.
pub(super) fn lend_stdin(link: impl AsFd, stdin: impl AsFd) -> rustix::io::Result<()> {
    lend(link, b"I", &[stdin.as_fd()])
}

/// Receives the message of [`lend_stdin`].
pub(super) fn receive_stdin(link: impl AsFd) -> Option<OwnedFd> {
    borrow(link, &mut [0; 1])?.1.next()
}

/// Sends why the launcher could not become the command.
pub(super) fn send_error(link: impl AsFd, error: i32) {
    let _ = send(link, &error.to_le_bytes(), SENDS | SendFlags::DONTWAIT);
}

/// Receives the message of [`send_error`]; `None` if the launcher became the command, or died first.
pub(super) fn receive_error(link: impl AsFd) -> Option<i32> {
    let number = |bytes: &[u8]| bytes.try_into().ok().map(i32::from_le_bytes);
    receive::<{ size_of::<i32>() + BEYOND_RECORD }, _>(link, number).ok().flatten()
}

fn lend(link: impl AsFd, bytes: &[u8], lent: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_LENT))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(lent));
    sendmsg(link, &[IoSlice::new(bytes)], &mut rights, SENDS).map(drop)
}

/// A record that [`lend`] sent: its length, and what came with it.
fn borrow(link: impl AsFd, bytes: &mut [u8]) -> Option<(usize, std::vec::IntoIter<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_LENT))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut buffers = [IoSliceMut::new(bytes)];
        match recvmsg(&link, &mut buffers, &mut rights, RECEIVES) {
            Ok(message) => break message.bytes,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    let lent: Vec<_> = rights
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(lent) => Some(lent),
            _ => None,
        })
        .flatten()
        .map(received)
        .collect();
    Some((length, lent.into_iter()))
}

/// Sends an order. Never waits: a supervisor that does not listen is stopped, or has ended.
pub(crate) fn send_order(link: impl AsFd, order: Order) {
    let _ = send(link, &order.to_bytes(), SENDS | SendFlags::DONTWAIT);
}

pub(super) fn send_report(link: impl AsFd, report: SupervisorReport) {
    let _ = send(link, &report.to_bytes(), SENDS | SendFlags::DONTWAIT);
}

/// The next order; `None` at the end of the connection; `WouldBlock` if none has come yet.
pub(super) fn receive_order(link: impl AsFd) -> io::Result<Option<Order>> {
    receive::<{ Order::LENGTH + BEYOND_RECORD }, _>(link, Order::parse)
}

pub(crate) fn receive_news(link: impl AsFd) -> io::Result<Option<SupervisorReport>> {
    receive::<{ SupervisorReport::LENGTH + BEYOND_RECORD }, _>(link, SupervisorReport::parse)
}

/// Reads one record, and notices a longer one where the kernel keeps records apart. After an invalid
/// record, no valid one follows.
fn receive<const ROOM: usize, T>(link: impl AsFd, parse: fn(&[u8]) -> Option<T>) -> io::Result<Option<T>> {
    let mut bytes = [0; ROOM];
    loop {
        match recv(&link, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) => return Ok(parse(&bytes[..length])),
            Err(Errno::AGAIN) => return Err(ErrorKind::WouldBlock.into()),
            // Once, before the data, if the other side ended without reading everything.
            Err(Errno::CONNRESET | Errno::INTR) => {}
            Err(_) => return Ok(None),
        }
    }
}
