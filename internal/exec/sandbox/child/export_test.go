//go:build linux

package child

// ArmLess is like Main, but enables only the protections that what names: "namespaces",
// "landlock", "filter" or "nothing". Then it makes an escape attempt instead of serving.
func ArmLess(args []string, what string) error {
	conn, err := openInherited()
	if err != nil {
		return err
	}
	w := newWriter(conn)
	l := map[string]layers{"namespaces": layerNamespaces, "landlock": layerLandlock | layerRest, "filter": layerFilter,
		"nothing": 0}[what]
	if err := w.send(kindHello, 0, 0, encodeHello(hello{Protections: arm(args[0], l)}), nil); err != nil {
		return err
	}
	return runAttempts(w, conn, number(args[1]))
}

// Attempts returns the number of escape attempts.
func Attempts() int { return len(attempts()) }

// PIDs returns the process IDs of d's children.
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

// PID returns the ID of the process that holds s.
func (s *Sandbox) PID() int {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.peer.(*linuxPeer).p.PID
}
