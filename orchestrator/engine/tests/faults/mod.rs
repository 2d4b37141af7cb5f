//! Every file operation of a whole run made to fail, cut short, or be the last one before a crash: the
//! run always comes to the same end, and nothing that was recorded is lost.

mod inbox;
mod injector;
mod owner;
mod run;
mod scripted;
mod world;
