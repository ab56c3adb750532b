//! finds: indirect: jmp
//! flags: -C jump-tables=yes
#![no_std]

#[unsafe(export_name = "jump_table.event")]
pub extern "C" fn event(n: u64, a: &mut [u64; 8]) {
    let [p, q, r, s, t, ..] = a;
    match n {
        0 => *p = p.wrapping_mul(3),
        1 => *q = r.wrapping_add(7),
        2 => *r ^= 9,
        3 => *s = s.wrapping_sub(*t),
        4 => *t = t.rotate_left(5),
        5 => *p = q.swap_bytes(),
        _ => *q = 0,
    }
}
