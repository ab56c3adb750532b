//! What every policy is tested with.
#[global_allocator]
static ALLOCATOR: hoistway::conformance::Counting = hoistway::conformance::Counting;

#[test]
fn it_keeps_what_a_policy_promises() {
    hoistway::conformance::check::<own_policy::FifoByClass>().unwrap_or_else(|failure| panic!("{failure}"));
}
