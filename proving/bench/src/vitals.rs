//! Statistics of a server: memory, processor time, bytes on its sockets.

use servers::Server;

/// Resources that a server has used so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vitals {
    /// Bytes in use, without the buffers of its clients.
    pub memory: f64,
    /// µs of processor time, including time in the kernel.
    pub processor: f64,
    /// Bytes that it has read from its sockets.
    pub received: f64,
    /// Bytes that it has written to its sockets.
    pub sent: f64,
    /// Calls of scripts by its clients.
    pub scripts: f64,
    /// µs that these scripts took, with everything that they call.
    pub script_time: f64,
}

/// The commands that run scripts. Their time includes that of the commands that a script calls.
const SCRIPTS: [&str; 2] = ["cmdstat_evalsha", "cmdstat_eval"];

impl Vitals {
    pub fn of(server: &Server) -> Self {
        Self::read(server.text(&["INFO", "all"]).as_text().unwrap_or_default())
    }

    /// Asks twice: returns the usage so far, and what the asking itself adds to it.
    pub fn with_its_own(server: &Server) -> [Self; 2] {
        let [first, second] = [Self::of(server), Self::of(server)];
        let own = second.since(&first);
        [second, own]
    }

    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            memory: self.memory - earlier.memory,
            processor: self.processor - earlier.processor,
            received: self.received - earlier.received,
            sent: self.sent - earlier.sent,
            scripts: self.scripts - earlier.scripts,
            script_time: self.script_time - earlier.script_time,
        }
    }

    fn read(info: &str) -> Self {
        let mut read = Self::default();
        for line in info.lines() {
            let Some((name, value)) = line.trim().split_once(':') else { continue };
            let number = || value.parse().unwrap_or(0.0);
            match name {
                "used_memory" => read.memory += number(),
                "mem_clients_normal" => read.memory -= number(),
                "used_cpu_sys" | "used_cpu_user" => read.processor += number() * 1e6,
                "total_net_input_bytes" => read.received = number(),
                "total_net_output_bytes" => read.sent = number(),
                name if SCRIPTS.contains(&name) => {
                    read.scripts += field(value, "calls=");
                    read.script_time += field(value, "usec=");
                }
                _ => {}
            }
        }
        read
    }
}

/// A number among `calls=4,usec=40,…`; 0 if it is not there.
fn field(fields: &str, name: &str) -> f64 {
    let number = fields.split(',').find_map(|field| field.strip_prefix(name)?.parse().ok());
    number.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_server_is_read_without_counting_commands_in_scripts_twice() {
        let info = "used_memory:1600\r\nmem_clients_normal:600\r\nused_memory_rss:5\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.25\r\n\
                    total_net_input_bytes:10\r\ntotal_net_output_bytes:20\r\n\
                    cmdstat_set:calls=9,usec=70,usec_per_call=7.77\r\n\
                    cmdstat_evalsha:calls=4,usec=40,usec_per_call=10.00,rejected_calls=0\r\n\
                    cmdstat_eval:calls=1,usec=60,usec_per_call=60.00\r\n";
        let read = Vitals::read(info);
        let expected = Vitals { memory: 1e3, processor: 1.75e6, received: 10.0, sent: 20.0, ..read.clone() };
        assert_eq!(read, expected);
        assert_eq!((read.scripts, read.script_time), (5.0, 100.0));
        assert_eq!(read.since(&read), Vitals::default());
    }
}
