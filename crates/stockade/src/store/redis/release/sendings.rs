use std::time::Duration;

use crate::{
    clock::Instant,
    redis::{Carrier, Receipt},
};

/// The last sending of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<C = Carrier> {
    pub(crate) at: Instant,
    /// The connection that it went out on. `None` if the connection changed meanwhile.
    pub(crate) carrier: Option<C>,
    /// When an earlier sending without an answer was made, if its connection is gone. That sending may still arrive.
    pub(crate) stray: Option<Instant>,
    /// After this time nothing of the sending is left at the server, even if nobody undoes it.
    pub(crate) forgotten: Instant,
}

impl<C: Copy + PartialEq> Sent<C> {
    /// `before` is the sending before this one, and whether it was answered. A sending that may still arrive is kept as
    /// `stray`, even when later sendings are answered.
    pub(crate) fn new(at: Instant, carrier: Option<C>, forgotten: Instant, before: Option<(Self, bool)>) -> Self {
        let stray = before.and_then(|(before, answered)| {
            let same = before.carrier.is_some() && before.carrier == carrier;
            if answered || same { before.stray } else { Some(before.at) }
        });
        Self { at, carrier, stray, forgotten }
    }
}

/// An attempt's command that was called, and perhaps not sent yet.
#[derive(Debug)]
struct Posted {
    receipt: Receipt,
    /// The connection that the command goes out on. `None` if the connection changed meanwhile.
    carrier: Option<Carrier>,
    lasts: Duration,
}

/// What an attempt has sent, which is undone if the attempt is dropped.
#[derive(Debug, Default)]
pub(crate) struct Sendings {
    /// The last sending, and whether it was answered.
    last: Option<(Sent, bool)>,
    /// The command that is under way, if it has been sent.
    under_way: Option<Posted>,
}

impl Sendings {
    /// A command was called. `lasts`: how long after the sending the server forgets what the command led to.
    pub(crate) fn post(&mut self, receipt: &Receipt, carrier: Option<Carrier>, lasts: Duration) {
        self.under_way = Some(Posted { receipt: receipt.clone(), carrier, lasts });
    }

    /// The command that was under way counts as never sent.
    pub(crate) fn was_never_executed(&mut self) {
        self.under_way = None;
    }

    /// Records the command that was under way as the last sending, if it was sent. Must be called once its reply is
    /// there or was dropped.
    pub(crate) fn note(&mut self) {
        if let Some(Posted { receipt, carrier, lasts }) = self.under_way.take()
            && let Some(at) = receipt.sent_at()
        {
            self.last = Some((Sent::new(at, carrier, at + lasts, self.last), false));
        }
    }

    pub(crate) fn was_answered(&mut self) {
        if let Some((_, answered)) = &mut self.last {
            *answered = true;
        }
    }

    /// The last sending has left nothing at the server. An earlier one, on a connection that is gone, may still arrive.
    pub(crate) fn left_nothing(&mut self) {
        self.last = self.last.take().filter(|(sent, _)| sent.stray.is_some());
    }

    /// Whether nothing was sent that is to be undone.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Takes the attempt to undo.
    pub(crate) fn take(&mut self) -> Option<Sent> {
        self.note();
        self.last.take().map(|(sent, _)| sent)
    }

    /// Records that nothing is to be undone, since the attempt has led to an ownership. Returns the time of a sending
    /// that may still arrive after the release of the ownership: if the sending timed out before the grant came, its
    /// connection may be gone by the time of that release.
    pub(crate) fn end(&mut self) -> Option<Instant> {
        self.last.take().and_then(|(sent, answered)| if answered { sent.stray } else { Some(sent.at) })
    }
}
