package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// bindAddress accepts HOST:PORT with an empty host and port 0.
func bindAddress(v string) error {
	_, _, err := splitAddress(v, 0)
	return err
}

// dialAddress accepts HOST:PORT that somebody can dial, or nothing.
func dialAddress(v string) error {
	if v == "" {
		return nil
	}
	host, _, err := splitAddress(v, 1)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return fmt.Errorf("%q is no address that a client can dial; write the name or address of this machine as clients reach it", v)
	}
	return nil
}

func adminAddress(v string) error {
	if v == Off {
		return nil
	}
	return bindAddress(v)
}

func splitAddress(v string, minPort int) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(v)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not HOST:PORT; write for example %s", v, DefaultListen)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < minPort || port > 65535 {
		return "", 0, fmt.Errorf("%q has no port of %d to 65535; write for example %s", v, minPort, net.JoinHostPort(host, "9092"))
	}
	return host, port, nil
}

// Loopback reports whether HOST:PORT can only be reached from this machine.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
