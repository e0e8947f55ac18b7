use std::sync::Weak;

use futures_util::future::BoxFuture;

use super::inner::Inner;
use crate::{
    clock::Instant,
    redis::{Handshake, LinkError, LinkEvents, Up},
    store::redis::parts::time,
};

/// Receives the events of one link. It refers to the store weakly, since the store owns the link and the link this.
pub(super) struct Watch {
    pub(super) inner: Weak<Inner>,
    pub(super) node: usize,
}

impl LinkEvents for Watch {
    fn prepare<'a>(&'a self, up: &'a Up, handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async move {
            let inner = self.inner.upgrade().ok_or(LinkError::Down)?;
            let node = inner.nodes.get(self.node).ok_or(LinkError::Down)?;
            if !inner.servers.claim(self.node, &up.run_id) {
                tracing::error!("two of the servers for one lock are the same: a quorum of them proves nothing");
                return Err(LinkError::Refused { code: "the same server twice".to_owned() });
            }
            if up.new_run {
                node.begin_run();
                inner.floors.seed(handshake, |bucket| inner.keys.floor(bucket)).await?;
            }
            let sent = Instant::now();
            let now = handshake.command(redis::cmd("TIME")).await?;
            node.clock.note(sent, time(&now)?);
            Ok(())
        })
    }

    fn opened(&self, up: &Up) {
        let Some(inner) = self.inner.upgrade() else { return };
        if up.new_run {
            inner.verify_all();
        }
    }

    fn closed(&self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.servers.leave(self.node);
        }
    }
}
