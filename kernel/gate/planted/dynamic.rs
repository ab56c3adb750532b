//! finds: indirect: call
#![no_std]

pub trait Policy {
    fn choose(&mut self) -> u64;
}

#[unsafe(export_name = "dynamic.event")]
pub extern "C" fn event(policy: &mut &mut dyn Policy) -> u64 {
    policy.choose() + 1
}
