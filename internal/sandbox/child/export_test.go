//go:build linux

package child

// ArmLess is Main with some of the protections only: "namespaces", "landlock", "filter", "nothing".
func ArmLess(args []string, what string) error {
	conn, err := inherited()
	if err != nil {
		return err
	}
	w := newWriter(conn)
	l := map[string]layers{"namespaces": layerNamespaces, "landlock": layerLandlock | layerRest, "filter": layerFilter, "nothing": 0}[what]
	if err := w.send(kindHello, 0, 0, encodeHello(hello{Protections: arm(args[0], l)}), nil); err != nil {
		return err
	}
	return try(w, conn, number(args[1]))
}

// Attempts says how many there are.
func Attempts() int { return len(attempts()) }

// PIDs gives the processes of the children of d.
func (d *Driver) PIDs() (pids []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.all {
		p.mu.Lock()
		if u, ok := p.peer.(*linuxPeer); ok {
			pids = append(pids, u.p.PID)
		}
		p.mu.Unlock()
	}
	return pids
}

// PID gives the process that holds a sandbox.
func (s *Sandbox) PID() int {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.peer.(*linuxPeer).p.PID
}
