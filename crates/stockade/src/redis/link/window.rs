use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use redis::Value;
use tokio::time::Instant;

/// The bounds of the size of a window. It begins with the least.
const SIZE: RangeInclusive<usize> = 16..=256;
/// A reply within this fraction of the time-out widens the window by one. A reply that takes twice that or longer
/// halves the window.
const BRISK: u32 = 4;
/// The most bytes of replies that may be on their way. By default Redis closes a connection that subscribes when 32 MiB
/// of its replies wait to be sent, or 8 MiB for a minute (`client-output-buffer-limit pubsub`).
const BYTES: usize = 6 << 20;

/// How many commands of one connection may be without a reply: as many as the server answers in a part of the command
/// time-out. More commands would only queue at the server, or unread in a busy process. Where they wait instead, a
/// caller can still take its command back.
#[derive(Debug)]
pub(super) struct Window {
    size: usize,
    /// When it was last halved. The times of commands sent before say nothing about the narrower window.
    halved: Instant,
}

impl Window {
    pub(super) fn new(now: Instant) -> Self {
        Self { size: *SIZE.start(), halved: now }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Fits it to the time that a command took which was answered at `now`. It widens only for a `crowd`, and by no
    /// more than the number of replies that were `read`, since the size of a reply is not known before.
    pub(super) fn fit(&mut self, sent: Instant, now: Instant, timeout: Duration, crowd: bool, read: usize) {
        let took = now.duration_since(sent);
        if took >= timeout / BRISK * 2 && sent >= self.halved {
            self.size = (self.size / 2).max(*SIZE.start());
            self.halved = now;
        } else if took < timeout / BRISK && crowd {
            self.size = (self.size + 1).min(*SIZE.end()).min(SIZE.start().saturating_add(read)).max(self.size);
        }
    }
}

/// What the largest value that a link has carried leaves of the windows of its connections: so few commands that as
/// many values of that size are within [`BYTES`]. Such values may come again at any time, also on later connections.
#[derive(Debug)]
pub(super) struct Ceiling(AtomicUsize);

impl Default for Ceiling {
    fn default() -> Self {
        Self(AtomicUsize::new(*SIZE.end()))
    }
}

impl Ceiling {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// The link has carried a value of this size, or is about to store one.
    pub(super) fn carried(&self, bytes: usize) {
        if bytes > BYTES / SIZE.end() {
            self.0.fetch_min((BYTES / bytes).max(1), Ordering::Relaxed);
        }
    }
}

/// The size of the values in a reply.
pub(super) fn bytes(reply: &Value) -> usize {
    match reply {
        Value::BulkString(bytes) => bytes.len(),
        Value::Array(parts) => parts.iter().map(bytes).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(100);

    /// Answers so many commands after `took`, in a crowd.
    fn answered(window: &mut Window, commands: usize, took: Duration) -> usize {
        for _ in 0..commands {
            let sent = window.halved;
            window.fit(sent, sent + took, TIMEOUT, true, usize::MAX);
        }
        window.size()
    }

    #[test]
    fn a_window_widens_in_a_crowd_that_is_answered_briskly_and_is_halved_when_it_is_not() {
        let mut window = Window::new(Instant::now());
        assert_eq!(window.size(), 16);
        assert_eq!(answered(&mut window, 10, TIMEOUT / 5), 26);
        assert_eq!(answered(&mut window, 1000, TIMEOUT / 5), 256);
        assert_eq!(answered(&mut window, 1, TIMEOUT / 3), 256);
        assert_eq!(answered(&mut window, 1, TIMEOUT / 2), 128);
        assert_eq!(answered(&mut window, 10, TIMEOUT), 16);
        let sent = window.halved;
        window.fit(sent, sent, TIMEOUT, false, usize::MAX);
        assert_eq!(window.size(), 16, "there was no crowd");
    }

    #[test]
    fn a_command_sent_before_the_window_was_halved_does_not_halve_it_again() {
        let mut window = Window::new(Instant::now());
        answered(&mut window, 1000, Duration::ZERO);
        let sent = window.halved;
        window.fit(sent, sent + TIMEOUT, TIMEOUT, true, 0);
        window.fit(sent, sent + TIMEOUT, TIMEOUT, true, 0);
        assert_eq!(window.size(), 128);
    }

    #[test]
    fn a_window_widens_by_no_more_than_the_replies_that_were_read() {
        let mut window = Window::new(Instant::now());
        for (read, size) in [(0, 16), (3, 19), (3, 19), (1000, 29)] {
            for _ in 0..10 {
                window.fit(window.halved, window.halved, TIMEOUT, true, read);
            }
            assert_eq!(window.size(), size, "{read} read");
        }
    }

    #[test]
    fn the_largest_value_decides_however_long_ago_it_was() {
        let ceiling = Ceiling::default();
        for (bytes, most) in [(24 << 10, 256), (60 << 10, 102), (1 << 20, 6), (60 << 10, 6), (0, 6), (100 << 20, 1)] {
            ceiling.carried(bytes);
            assert_eq!(ceiling.get(), most, "{bytes} bytes");
        }
    }

    #[test]
    fn all_values_of_a_reply_count() {
        let text = |bytes| Value::BulkString(vec![0; bytes]);
        let parts = vec![text(20), Value::Int(1), Value::Array(vec![text(3), Value::Nil])];
        assert_eq!((bytes(&text(24)), bytes(&Value::Array(parts)), bytes(&Value::Okay)), (24, 23, 0));
    }
}
