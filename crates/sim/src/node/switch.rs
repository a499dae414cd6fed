//! A learning switch: a frame goes where its destination was last heard, or everywhere else.

use gannet_wire::ethernet;

/// Most stations that are remembered; the oldest is forgotten first.
const STATIONS_MAX: usize = 64;

/// A switch with any number of ports.
#[derive(Debug, Default)]
pub struct Switch {
    ports: usize,
    stations: Vec<([u8; 6], usize)>,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// Out of one port.
    Port(usize),
    /// Out of every port but the one it came in.
    Others,
    /// Nowhere: its destination is where it came from, or it is no frame.
    Nowhere,
}

impl Switch {
    /// With `ports` ports.
    pub fn new(ports: usize) -> Self {
        Switch {
            ports,
            stations: Vec::new(),
        }
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.ports
    }

    /// A frame comes in at `port`.
    pub fn forward(&mut self, port: usize, frame: &[u8]) -> Out {
        let Ok((header, _)) = ethernet::Header::parse(frame) else {
            return Out::Nowhere;
        };
        let (from, to) = (header.src.0, header.dst.0);
        self.learn(from, port);
        let group = to.first().is_some_and(|first| first & 1 == 1);
        match self.stations.iter().find(|(station, _)| *station == to) {
            Some((_, at)) if *at == port => Out::Nowhere,
            Some((_, at)) if !group => Out::Port(*at),
            _ => Out::Others,
        }
    }

    fn learn(&mut self, station: [u8; 6], port: usize) {
        let known = self
            .stations
            .iter_mut()
            .find(|(known, _)| *known == station);
        match known {
            Some((_, at)) => *at = port,
            None => {
                if self.stations.len() >= STATIONS_MAX {
                    self.stations.remove(0);
                }
                self.stations.push((station, port));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
        if to == 255 {
            frame[..6].fill(255);
        }
        frame
    }

    #[test]
    fn learns_from_senders() {
        let mut switch = Switch::new(3);
        assert_eq!(switch.forward(0, &frame(2, 1)), Out::Others);
        assert_eq!(switch.forward(1, &frame(1, 2)), Out::Port(0));
        assert_eq!(switch.forward(0, &frame(2, 1)), Out::Port(1));
        assert_eq!(switch.forward(0, &frame(255, 1)), Out::Others);
        assert_eq!(switch.forward(1, &frame(2, 3)), Out::Nowhere);
        assert_eq!(switch.forward(1, &[1, 2]), Out::Nowhere);
        // station 1 moved to another port
        assert_eq!(switch.forward(2, &frame(255, 1)), Out::Others);
        assert_eq!(switch.forward(1, &frame(1, 2)), Out::Port(2));
    }
}
