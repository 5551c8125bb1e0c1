package owned

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/network"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// TestOneTraffic checks that labels reach the connections of processes that are started meanwhile.
func TestOneTraffic(t *testing.T) {
	s := &machines{boxes: boxes{cfg: Config{Egress: Egress{Network: network.NewNetwork(network.Config{})}}}}
	b := &box{rec: Record{Network: true}}
	brought := s.trafficOf(b) // by bringLabels
	for range 2 {
		var spec sandbox.MachineSpec
		if s.addNetwork(b, &spec); brought == nil || spec.Traffic != sandbox.Traffic(brought) {
			t.Errorf("spec.Traffic = %v, want %v", spec.Traffic, brought)
		}
	}
	var spec sandbox.MachineSpec
	if s.addNetwork(&box{}, &spec); spec.Traffic != nil || spec.Network != nil {
		t.Errorf("a sandbox without a network has %v", spec.Traffic)
	}
}
