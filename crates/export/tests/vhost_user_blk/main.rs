//! vhost-user-blk with a guest in this process, one that behaves and one that does not.

mod guest;
mod hostile;
mod service;
