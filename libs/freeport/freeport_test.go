package freeport

import (
	"net"
	"testing"
)

func TestNobodyElseGetsAPortUntilItIsReleased(t *testing.T) {
	dir, address := t.TempDir(), Address(t)
	p, err := hold(dir, number(t, address))
	if err != nil || p == nil {
		t.Fatalf("a port on which nothing listens: %v, %v", p, err)
	}
	if other, err := hold(dir, p.number); err != nil || other != nil {
		t.Errorf("a held port: %v, %v", other, err)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := hold(dir, p.number)
	if err != nil || again == nil {
		t.Fatalf("a released port: %v, %v", again, err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAPortInUseIsNotGivenOut(t *testing.T) {
	dir, address := t.TempDir(), Address(t)
	port := number(t, address)
	for _, listened := range []int{port, port + bus} {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: listened})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := hold(dir, port); err != nil || p != nil {
			t.Errorf("something listens on %d: %v, %v", listened, p, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPortsLieBelowTheEphemeralOnes(t *testing.T) {
	if p := number(t, Address(t)); p < 1024 || p+bus >= 32768 {
		t.Errorf("port %d", p)
	}
}

func number(t *testing.T, address string) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}
