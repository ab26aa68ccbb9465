//! The command line that tools written for HAProxy use: single-dash options, read by hand.
//!
//! Owns the options and what each of them asks for; leaves doing it to the other files.  Sub-commands
//! (`weir run`, `weir demo`, ...) are in [`crate::subcommand`].

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use weir_balance::Limit;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// `-v`
    Version,
    /// `-vv`
    LongVersion,
    /// `-h`
    Help,
    /// `-cc CONDITION`
    Condition(String),
    /// Check (`-c`) or serve a configuration.
    Run(Box<Options>),
}

/// What stays in the foreground and what does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Background {
    /// As the configuration says (`daemon`).
    #[default]
    AsConfigured,
    /// `-D`
    Daemon,
    /// `-d`, `-db`: foreground, whatever the configuration says.
    Never,
}

/// `-W`, `-Ws`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Supervision {
    /// As the configuration says (`master-worker`).
    #[default]
    AsConfigured,
    /// A master process and its worker.
    Master,
    /// The same, and the service manager is told (`sd_notify`).
    MasterWithNotify,
}

/// How much is said on the standard error stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// `-q`: nothing but errors.
    Quiet,
    #[default]
    Normal,
    /// `-V`
    Verbose,
}

/// What becomes of the processes that are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// `-sf`: they finish what they serve (SIGUSR1).
    Finish,
    /// `-st`: they end at once (SIGTERM).
    Terminate,
}

/// The process that the program's own master or daemon start has started; the word is not for users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Started by a user or a service manager.
    #[default]
    First,
    /// The detached process of `-D`.
    Daemon,
    /// The worker of a master.
    Worker,
}

/// Everything that may accompany a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// `-f`, `--`: files and folders in their order.
    pub files: Vec<PathBuf>,
    /// `-C`: folder to change to before anything is read.
    pub directory: Option<PathBuf>,
    /// `-c`: check only.
    pub check: bool,
    pub background: Background,
    pub supervision: Supervision,
    pub verbosity: Verbosity,
    /// `-dW`: a warning is an error.
    pub zero_warning: bool,
    /// `-dr`: a server whose name cannot be resolved is no error.
    pub ignore_unresolved: bool,
    /// `-dV`: certificates of servers are not checked.
    pub no_server_verify: bool,
    /// `-n`: connections of the process; 0 says nothing.
    pub max_connections: Limit,
    /// `-N`: connections of a proxy that says nothing else.
    pub max_proxy_connections: Limit,
    /// `-m`: memory in MiB.
    pub max_memory_mib: Option<u64>,
    /// `-L`: name of this peer.
    pub local_peer: Option<String>,
    /// `-p`
    pub pid_file: Option<PathBuf>,
    /// `-S`: the master's command sockets, as written.
    pub master_sockets: Vec<String>,
    /// `-x`: where the predecessor hands over its listening sockets.
    pub predecessor_socket: Option<PathBuf>,
    /// `-sf`, `-st`: the predecessor's processes.
    pub replaced: Vec<u32>,
    pub farewell: Option<Farewell>,
    pub role: Role,
}

/// A command line that cannot be followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nothing was asked for, or an unknown option: the usage is printed.
    Usage(Option<String>),
    /// The option's value is missing or wrong.
    Value(&'static str, &'static str),
    /// HAProxy has it and Weir does not yet.
    NotImplemented(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(None) => write!(f, "no configuration: name one with -f FILE"),
            Self::Usage(Some(option)) => write!(f, "unknown option '{option}'"),
            Self::Value(option, expected) => write!(f, "option {option} needs {expected}"),
            Self::NotImplemented(option) => write!(f, "option {option} is not implemented yet"),
        }
    }
}

/// Most files that one command line may name.
const MAX_FILES: usize = 10_000;
/// Most processes that `-sf` or `-st` may name.
const MAX_REPLACED: usize = 1_000;
/// Most master sockets.
const MAX_MASTER_SOCKETS: usize = 16;

/// Options that choose among mechanisms which Weir does not have, so that there is nothing to do: pollers (there is epoll
/// alone), splicing, zero-copy and kernel TLS, poisoned memory (`-dM`), forbidden forks (`-dI`), and notices that no
/// check gives so far (`-dD`).
const WITHOUT_EFFECT: [&[u8]; 10] =
    [b"-dD", b"-dF", b"-dI", b"-dS", b"-dT", b"-dZ", b"-de", b"-dk", b"-dp", b"-dv"];

/// Options that HAProxy has and Weir refuses; each with whatever is written behind it in the same word.
const NOT_IMPLEMENTED: [&[u8]; 10] =
    [b"-4", b"-dA", b"-dC", b"-dG", b"-dK", b"-dL", b"-dP", b"-dR", b"-dc", b"-dt"];

/// Reads the words behind the program's name.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, Refusal> {
    let mut words = Words { rest: words.into_iter().collect::<Vec<_>>().into_iter().peekable() };
    let mut options = Options::default();
    while let Some(word) = words.next() {
        if let Some(request) = option(&word, &mut words, &mut options)? {
            return Ok(request);
        }
    }
    if options.files.is_empty() {
        return Err(Refusal::Usage(None));
    }
    Ok(Request::Run(Box::new(options)))
}

struct Words {
    rest: std::iter::Peekable<std::vec::IntoIter<OsString>>,
}

impl Words {
    fn next(&mut self) -> Option<OsString> {
        self.rest.next()
    }

    fn value(&mut self, option: &'static str, expected: &'static str) -> Result<OsString, Refusal> {
        self.next().ok_or(Refusal::Value(option, expected))
    }

    fn text(&mut self, option: &'static str, expected: &'static str) -> Result<String, Refusal> {
        self.value(option, expected)?.into_string().map_err(|_| Refusal::Value(option, expected))
    }

    fn number<N: std::str::FromStr>(&mut self, option: &'static str) -> Result<N, Refusal> {
        self.text(option, "a number")?.parse().map_err(|_| Refusal::Value(option, "a number"))
    }

    /// The words up to the next option.
    fn next_plain(&mut self) -> Option<OsString> {
        self.rest.next_if(|word| !word.as_bytes().starts_with(b"-"))
    }
}

/// One option; `Some` when it decides what the whole command line means.
fn option(word: &OsStr, words: &mut Words, to: &mut Options) -> Result<Option<Request>, Refusal> {
    match word.as_bytes() {
        b"-v" => return Ok(Some(Request::Version)),
        b"-vv" => return Ok(Some(Request::LongVersion)),
        b"-h" | b"--help" => return Ok(Some(Request::Help)),
        b"-cc" => return Ok(Some(Request::Condition(words.text("-cc", "a condition")?))),
        b"-f" => add_file(to, words.value("-f", "a file or a folder")?)?,
        b"--" => {
            while let Some(file) = words.next() {
                add_file(to, file)?;
            }
        }
        b"-C" => to.directory = Some(words.value("-C", "a folder")?.into()),
        b"-c" => to.check = true,
        b"-D" => to.background = Background::Daemon,
        b"-d" | b"-db" => to.background = Background::Never,
        b"-W" => to.supervision = Supervision::Master,
        b"-Ws" => to.supervision = Supervision::MasterWithNotify,
        b"-q" => to.verbosity = Verbosity::Quiet,
        b"-V" => to.verbosity = Verbosity::Verbose,
        b"-dW" => to.zero_warning = true,
        b"-dr" => to.ignore_unresolved = true,
        b"-dV" => to.no_server_verify = true,
        b"-n" => to.max_connections = Limit::new(words.number("-n")?),
        b"-N" => to.max_proxy_connections = Limit::new(words.number("-N")?),
        b"-m" => to.max_memory_mib = Some(words.number("-m")?),
        b"-L" => to.local_peer = Some(words.text("-L", "a name")?),
        b"-p" => to.pid_file = Some(words.value("-p", "a file")?.into()),
        b"-S" => {
            if to.master_sockets.len() == MAX_MASTER_SOCKETS {
                return Err(Refusal::Value("-S", "to be given less often"));
            }
            to.master_sockets.push(words.text("-S", "an address")?);
        }
        b"-x" => to.predecessor_socket = Some(words.value("-x", "the path of a unix socket")?.into()),
        b"-sf" => replaced(words, to, Farewell::Finish)?,
        b"-st" => replaced(words, to, Farewell::Terminate)?,
        ROLE_DAEMON => to.role = Role::Daemon,
        ROLE_WORKER => to.role = Role::Worker,
        known if WITHOUT_EFFECT.contains(&known) || known.starts_with(b"-dM") => {}
        known if NOT_IMPLEMENTED.iter().any(|option| known.starts_with(option)) => {
            return Err(Refusal::NotImplemented(word.to_string_lossy().into_owned()));
        }
        _ => return Err(Refusal::Usage(Some(word.to_string_lossy().into_owned()))),
    }
    Ok(None)
}

const ROLE_DAEMON: &[u8] = b"-role=daemon";
const ROLE_WORKER: &[u8] = b"-role=worker";

impl Role {
    /// The hidden option that gives a process this role.
    pub(crate) fn as_option(self) -> Option<OsString> {
        match self {
            Self::First => None,
            Self::Daemon => Some(OsString::from_vec(ROLE_DAEMON.to_vec())),
            Self::Worker => Some(OsString::from_vec(ROLE_WORKER.to_vec())),
        }
    }

    /// Whether a word of a command line gives a role.
    pub(crate) fn is_option(word: &OsStr) -> bool {
        word.as_bytes() == ROLE_DAEMON || word.as_bytes() == ROLE_WORKER
    }
}

fn add_file(to: &mut Options, file: OsString) -> Result<(), Refusal> {
    if to.files.len() == MAX_FILES {
        return Err(Refusal::Value("-f", "to be given less often"));
    }
    to.files.push(file.into());
    Ok(())
}

fn replaced(words: &mut Words, to: &mut Options, farewell: Farewell) -> Result<(), Refusal> {
    const EXPECTED: Refusal = Refusal::Value("-sf/-st", "a list of process numbers");
    to.farewell = Some(farewell);
    while let Some(word) = words.next_plain() {
        let number = word.to_str().and_then(|text| text.parse::<u32>().ok());
        // A number of zero or beyond the signed range would signal a whole group.
        let number = number.filter(|pid| (1..=i32::MAX as u32).contains(pid)).ok_or(EXPECTED)?;
        if to.replaced.len() == MAX_REPLACED {
            return Err(EXPECTED);
        }
        to.replaced.push(number);
    }
    Ok(())
}

/// What `-h` and mistakes print.
pub(crate) const USAGE: &str = "\
Usage : haproxy [-f <cfgfile|cfgdir>]* [ -vdVDqc ] [ -n <maxconn> ] [ -N <maxpconn> ]
        [ -p <pidfile> ] [ -m <max megs> ] [ -C <dir> ] [-- <cfgfile>*]
        -v displays the version ; -vv what was built in ; -h this.
        -c checks the configuration and ends ; -V says that it is valid.
        -cc <condition> evaluates a condition: exit code 0 true, 1 false, 2 wrong.
        -d, -db stay in the foreground ; -D goes to the background.
        -W starts a master and its worker ; -Ws also tells the service manager.
        -S <bind>[,<bind options>...] opens the master's command socket.
        -sf|-st <pid>* lets old processes finish, or ends them.
        -x <unix socket> takes over the listening sockets of an old process.
        -q says nothing ; -V says more ; -dW takes warnings for errors.
        -dr ignores server names that cannot be resolved.
        -dV does not check servers' certificates.
        -n, -N limit connections of the process, of a proxy ; -m memory in MB.
        -C changes to a folder first ; -L names this peer ; -p writes the pid file.
Also  : weir run|check|demo|doc|version --help
";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Request, Refusal> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_are_read() {
        let check = |line: &str, expected: Options| {
            assert_eq!(read(line), Ok(Request::Run(Box::new(expected))), "{line}");
        };
        let base = || Options { files: vec!["a.cfg".into()], ..Options::default() };
        check("-f a.cfg", base());
        check("-dM -dI -f a.cfg -dM0x50,tag -dv -dD", base());
        check(
            "-f a.cfg -- b.cfg -d",
            Options { files: vec!["a.cfg".into(), "b.cfg".into(), "-d".into()], ..base() },
        );
        check("-c -V -f a.cfg", Options { check: true, verbosity: Verbosity::Verbose, ..base() });
        check("-d -f a.cfg", Options { background: Background::Never, ..base() });
        check("-D -db -f a.cfg", Options { background: Background::Never, ..base() });
        check(
            "-D -p run.pid -f a.cfg -sf 12 13 -q",
            Options {
                background: Background::Daemon,
                pid_file: Some("run.pid".into()),
                replaced: vec![12, 13],
                farewell: Some(Farewell::Finish),
                verbosity: Verbosity::Quiet,
                ..base()
            },
        );
        check("-st -f a.cfg", Options { farewell: Some(Farewell::Terminate), ..base() });
        check(
            "-W -S fd@5,level,admin -f a.cfg",
            Options {
                supervision: Supervision::Master,
                master_sockets: vec!["fd@5,level,admin".into()],
                ..base()
            },
        );
        check("-Ws -f a.cfg", Options { supervision: Supervision::MasterWithNotify, ..base() });
        check(
            "-n 100 -N 20 -m 1024 -L A -C /tmp -f a.cfg -x /run/old.sock -dW -dr -dV",
            Options {
                max_connections: Limit::new(100),
                max_proxy_connections: Limit::new(20),
                max_memory_mib: Some(1024),
                local_peer: Some("A".into()),
                directory: Some("/tmp".into()),
                predecessor_socket: Some("/run/old.sock".into()),
                zero_warning: true,
                ignore_unresolved: true,
                no_server_verify: true,
                ..base()
            },
        );
    }

    #[test]
    fn what_ends_at_once() {
        let check = |line: &str, expected| assert_eq!(read(line), Ok(expected), "{line}");
        check("-v", Request::Version);
        check("-vv -f a.cfg", Request::LongVersion);
        check("-h", Request::Help);
        check("-cc defined(X)", Request::Condition("defined(X)".into()));
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, expected: &str| {
            assert_eq!(read(line).map_err(|refusal| refusal.to_string()), Err(expected.into()), "{line}");
        };
        check("", "no configuration: name one with -f FILE");
        check("-c", "no configuration: name one with -f FILE");
        check("-f", "option -f needs a file or a folder");
        check("-n many -f a", "option -n needs a number");
        check("-n -1 -f a", "option -n needs a number");
        check("-cc", "option -cc needs a condition");
        check("-z", "unknown option '-z'");
        check("a.cfg", "unknown option 'a.cfg'");
        check("-sf 0", "option -sf/-st needs a list of process numbers");
        check("-sf 12x", "option -sf/-st needs a list of process numbers");
        check("-dt h2 -f a", "option -dt is not implemented yet");
        check("-dKall", "option -dKall is not implemented yet");
    }
}
