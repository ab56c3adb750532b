//! One TLS session: encrypted bytes of a socket in, decrypted bytes out, and the reverse.
//!
//! Promise  no call waits; what a session holds is bounded by the longest handshake message (64 KiB)
//!          plus what one call was given.
//! Cost     a handshake takes a signature and, with client certificates, a verification for each
//!          certificate of the chain: 0.1 to 1 ms.

use std::io::{self, BufRead, IoSlice, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::{ServerConfig, ServerConnection};

use super::certificate;

/// A session, from its first byte.
pub struct Session {
    connection: ServerConnection,
    has_ended: bool,
}

impl Session {
    /// A session that waits for the client's first message.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        // What is encrypted is bounded by the caller, which gives no more before it was sent.
        connection.set_buffer_limit(None);
        Ok(Self { connection, has_ended: false })
    }

    /// Decrypts bytes of the client and appends what they hold to `decrypted`.
    ///
    /// # Errors
    /// The client broke the protocol or was refused. An alert is to be sent then.
    pub fn receive(&mut self, mut encrypted: &[u8], decrypted: &mut Vec<u8>) -> io::Result<()> {
        while !encrypted.is_empty() {
            let taken = self.connection.read_tls(&mut encrypted)?;
            let processed = self.connection.process_new_packets();
            let state = processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.has_ended |= state.peer_has_closed();
            let mut reader = self.connection.reader();
            while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
                decrypted.extend_from_slice(chunk);
                let length = chunk.len();
                reader.consume(length);
            }
            if taken == 0 {
                // Nothing counts behind the client's close_notify.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Encrypts bytes, to be sent by [`Session::send`].
    ///
    /// # Errors
    /// None is known: there is no limit to reach.
    pub fn encrypt(&mut self, plain: &[u8]) -> io::Result<()> {
        self.connection.writer().write_all(plain)
    }

    /// Sends what is ready, as far as the socket takes it.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, socket: impl AsFd) -> io::Result<()> {
        let mut writer = Socket(socket);
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut writer) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether there is something to send.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Whether the client has ended its direction.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// The names in the client's certificate.
    pub fn client_names(&self) -> Vec<String> {
        let own = self.connection.peer_certificates().and_then(|chain| chain.first());
        own.map_or_else(Vec::new, |own| certificate::names(own))
    }

    /// Makes the session's end ready to be sent.
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }
}

/// A socket that is written to without waiting.
struct Socket<F>(F);

impl<F: AsFd> Write for Socket<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(sendmsg(&self.0, pieces, &mut SendAncillaryBuffer::default(), flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
