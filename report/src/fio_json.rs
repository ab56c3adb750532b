//! Reads what fio writes: `--output-format=json` with notes before and the human report behind, or cut off.
