package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// bindAddress accepts HOST:PORT with an empty host and port 0.
func bindAddress(v string) error {
	_, _, err := splitAddress(v, 0, DefaultListen)
	return err
}

// dialAddress accepts HOST:PORT that somebody can dial, or nothing.
func dialAddress(v string) error {
	if v == "" {
		return nil
	}
	host, _, err := splitAddress(v, 1, "broker.example.com:9092")
	if err != nil {
		return err
	}
	if everywhere(host) {
		return fmt.Errorf("%q is no address that a client can dial; write the name or address of this machine as clients reach it", v)
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

// splitAddress takes HOST:PORT apart. The error shows an example of one that is
// right.
func splitAddress(v string, minPort int, example string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(v)
	if err != nil || strings.ContainsAny(host, " \t\r\n/") {
		return "", 0, fmt.Errorf("%q is not HOST:PORT; write for example %s", v, example)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < minPort || port > 65535 {
		_, right, _ := net.SplitHostPort(example) // it is one
		return "", 0, fmt.Errorf("%q has no port of %d to 65535; write for example %s", v, minPort, net.JoinHostPort(host, right))
	}
	return host, port, nil
}

// overlap says whether two addresses cannot be listened on at once: one that
// names no address of the machine takes the port of all of them.
func overlap(a, b string) bool {
	hostA, portA, errA := splitAddress(a, 0, DefaultListen)
	hostB, portB, errB := splitAddress(b, 0, DefaultListen)
	if errA != nil || errB != nil || portA != portB || portA == 0 {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB) || within(hostA, hostB) || within(hostB, hostA)
}

// within says whether an address is one of those that Localhost stands for.
func within(host, of string) bool { return of == Localhost && (host == "127.0.0.1" || host == "::1") }

// everywhere says whether a host stands for all addresses of this machine.
func everywhere(host string) bool {
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
