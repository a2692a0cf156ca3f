package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// bindAddress accepts HOST:PORT, also with an empty host or port 0.
func bindAddress(v string) error {
	_, _, err := splitAddress(v, 0, DefaultListen)
	return err
}

// dialAddress accepts HOST:PORT that a client can dial, or nothing.
func dialAddress(v string) error {
	if v == "" {
		return nil
	}
	host, _, err := splitAddress(v, 1, "broker.example.com:9092")
	if err != nil {
		return err
	}
	if Everywhere(host) {
		return fmt.Errorf("%q is not an address that a client can dial; write a name or address under which clients reach this machine", v)
	}
	return nil
}

func adminAddress(v string) error {
	if v == Off {
		return nil
	}
	_, _, err := splitAddress(v, 0, DefaultAdminListen)
	if err != nil {
		return fmt.Errorf("%w, or %s for none", err, Off)
	}
	return nil
}

// splitAddress splits HOST:PORT. Its error shows example, a valid address.
func splitAddress(v string, minPort int, example string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(v)
	if err != nil || strings.ContainsAny(host, " \t\r\n/") {
		return "", 0, fmt.Errorf("%q is not HOST:PORT; write for example %s", v, example)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < minPort || port > 65535 {
		_, right, _ := net.SplitHostPort(example) // example is valid
		return "", 0, fmt.Errorf("%q has no port of %d to 65535; write for example %s", v, minPort, net.JoinHostPort(host, right))
	}
	return host, port, nil
}

// HostPort splits an address that the loader has accepted, or one to which a listener is bound.
func HostPort(address string) (host string, port int32) {
	host, n, _ := splitAddress(address, 0, DefaultListen)
	return host, int32(n)
}

// overlap reports whether a process cannot listen on both addresses: one without an address of its
// own takes the port on all addresses of the machine.
func overlap(a, b string) bool {
	hostA, portA, errA := splitAddress(a, 0, DefaultListen)
	hostB, portB, errB := splitAddress(b, 0, DefaultListen)
	if errA != nil || errB != nil || portA != portB || portA == 0 {
		return false
	}
	return hostA == hostB || Everywhere(hostA) || Everywhere(hostB) || within(hostA, hostB) || within(hostB, hostA)
}

// within reports whether host is one of the addresses that Localhost stands for.
func within(host, of string) bool { return of == Localhost && (host == "127.0.0.1" || host == "::1") }

// Everywhere reports whether host means all addresses of this machine.
func Everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// Loopback reports whether HOST:PORT can only be reached from this machine.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == Localhost {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
