package cluster

import (
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/view"
)

// unreached describes a broker to which no connection can be made because of err. Brokers with the
// same reason have the same text: it has no local address and no time of the attempt.
func unreached(broker int32, address string, since time.Time, err error) view.Unreached {
	x := view.Unreached{Broker: broker, Address: address, Since: since, Err: err.Error(), Refused: errors.Is(err, syscall.ECONNREFUSED)}
	if m := (*link.Mismatch)(nil); errors.As(err, &m) && m.Lasts() {
		x.Remedy = m.Remedy
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		if op.Source != nil {
			x.Err = strings.Replace(x.Err, op.Source.String()+"->", "", 1)
		}
		// The alert of RFC 8446, 6.2, has no type of its own outside of crypto/tls.
		if x.Ours = op.Op == "remote error" && op.Err.Error() == "tls: expired certificate"; x.Ours {
			x.Err = "the broker there refuses the certificate of this one, which has expired or is not valid yet: renew it"
		}
	}
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		x.Theirs = true
		from, to := invalid.Cert.NotBefore.UTC().Format(time.DateTime), invalid.Cert.NotAfter.UTC().Format(time.DateTime)
		x.Err = strings.Replace(x.Err, invalid.Error(), "its certificate is valid only from "+from+" to "+to, 1)
	}
	return x
}
