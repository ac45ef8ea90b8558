//! The test bed itself: its servers start, answer and stop, and its processes end when they should; and what code that we did
//! not write makes of our keys.

mod process;
mod second_opinions;
mod start;
