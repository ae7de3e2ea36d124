//! The connection between us and the minder: a pair of sockets that keep records apart. Its end is the end of either side,
//! however that died; and the minder's is its stdin, so that no descriptor needs a name.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};

use super::order::Order;
use super::report::Report;

/// Our end, and the minder's. Neither is inherited by what is started.
pub(crate) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends the first order, and with it our stdin, which is to be the command's: the minder's own is the connection.
pub(crate) fn begin(link: &OwnedFd, order: Order) -> rustix::io::Result<()> {
    let stdin = io::stdin();
    let lent = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&lent));
    sendmsg(link, &[IoSlice::new(&order.to_bytes())], &mut rights, SendFlags::NOSIGNAL).map(drop)
}

/// What [`begin`] sent. `None` if we ended before.
pub(super) fn accept(link: impl AsFd) -> Option<(Order, OwnedFd)> {
    let mut bytes = [0; Order::LENGTH + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&link, &mut buffers, &mut rights, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message.bytes,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    let stdin = rights.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut lent) => lent.next(),
        _ => None,
    });
    Some((Order::parse(&bytes[..length])?, stdin?))
}

/// Sends an order. Never waits: a minder that does not listen is stopped, or has ended.
pub(crate) fn send_order(link: &OwnedFd, order: Order) {
    let _ = send(link, &order.to_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

pub(super) fn send_report(link: impl AsFd, report: Report) {
    let _ = send(link, &report.to_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// What there is to receive.
pub(super) enum Received {
    Order(Order),
    Nothing,
    /// The end of the connection, or what is no order: there will be none.
    End,
}

pub(super) fn receive_order(link: impl AsFd) -> Received {
    let mut bytes = [0; Order::LENGTH + 1];
    match recv(link, &mut bytes[..], RecvFlags::DONTWAIT) {
        Ok((length, _)) => Order::parse(&bytes[..length]).map_or(Received::End, Received::Order),
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::End,
    }
}

/// What the minder, which has ended, had to say.
pub(crate) fn receive_report(link: &OwnedFd) -> Option<Report> {
    let mut bytes = [0; Report::LENGTH + 1];
    let length = loop {
        match recv(link, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) => break length,
            // Said once, before what there is to receive, when the minder ended without having read all orders.
            Err(Errno::CONNRESET | Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    Report::parse(&bytes[..length])
}
