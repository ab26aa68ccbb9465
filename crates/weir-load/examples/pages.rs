//! Temporary.
fn main() {
    let runs: Vec<_> = std::env::args()
        .skip(1)
        .map(|file| weir_load::report::read(&std::fs::read_to_string(file).unwrap()).unwrap())
        .collect();
    if std::env::var("TABLE").is_ok() {
        for run in &runs {
            println!("{}", weir_load::report::table(run));
        }
        return;
    }
    print!("{}", weir_load::report::page(&runs));
}
