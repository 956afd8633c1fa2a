//! Prints the number of lines of each operator.

use std::io;

use kube_informer_operators::lines;

fn main() -> io::Result<()> {
    print!("{}", lines::table()?);
    Ok(())
}
