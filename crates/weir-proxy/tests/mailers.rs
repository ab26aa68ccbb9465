//! Mails about servers, over real sockets: a mail server that takes down what it hears.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod harness;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How long anything may take; far above what it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A mail server; what its clients said, a mail at a time.
fn mail_server() -> (SocketAddr, Receiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, mails) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            take_mail(&client, &sender);
        }
    });
    (address, mails)
}

fn take_mail(mut client: &TcpStream, mails: &Sender<Vec<String>>) {
    let mut heard = Vec::new();
    let mut in_message = false;
    client.write_all(b"220 mail.test\r\n").unwrap();
    for line in BufReader::new(client).lines() {
        let line = line.unwrap();
        let answer = match line.as_str() {
            "." => "250 taken",
            _ if in_message => "",
            "DATA" => "354 go on",
            "QUIT" => "221 bye",
            line if line.starts_with("EHLO") => "250-mail.test\r\n250 SIZE 1000000",
            _ => "250 ok",
        };
        in_message = if in_message { line != "." } else { line == "DATA" };
        if !answer.is_empty() {
            client.write_all(format!("{answer}\r\n").as_bytes()).unwrap();
        }
        let ends = answer.starts_with("221");
        heard.push(line);
        if ends {
            // The test may have heard enough.
            let _heard = mails.send(heard);
            return;
        }
    }
}

#[test]
fn mails_tell_of_servers_that_go_and_come() {
    let (address, mails) = mail_server();
    let text = format!(
        "global\n nbthread 1\nmailers m\n timeout mail 30s\n mailer smtp {address}\n\
         defaults\n mode http\n timeout connect 10s\n timeout client 10s\n timeout server 10s\n \
         email-alert mailers m\n email-alert from lb@test\n email-alert to ops@test\n \
         email-alert myhostname lb.test\n\
         backend quiet\n server s 127.0.0.1:9\n\
         listen l\n bind 127.0.0.1:0\n email-alert level notice\n server s 127.0.0.1:9\n"
    );
    let running = harness::start(&text);
    let shared = &running.shared;
    let server = |proxy: usize| shared.proxies[proxy].server("s").unwrap();
    // A paused server is one for notices, and the level of this backend is alert.
    shared.set_drain(&server(0));
    shared.set_maint(&server(1));
    shared.set_ready(&server(1));
    let down = mails.recv_timeout(LIMIT).unwrap();
    let up = mails.recv_timeout(LIMIT).unwrap();
    let told = "Server l/s is going DOWN for maintenance. 0 active and 0 backup servers left. 0 sessions active, \
                0 requeued, 0 remaining in queue";
    assert_eq!(
        down[..6],
        [
            "EHLO lb.test",
            "MAIL FROM:<lb@test>",
            "RCPT TO:<ops@test>",
            "DATA",
            "From: lb@test",
            "To: ops@test"
        ]
    );
    assert!(down[6].starts_with("Date: "), "{down:?}");
    assert_eq!(down[7..], [&format!("Subject: [HAProxy Alert] {told}"), "", told, ".", "QUIT"]);
    assert_eq!(up[9], "Server l/s is UP/READY (leaving forced maintenance)");
}
