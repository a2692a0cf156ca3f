//go:build !unix

package wire

// read writes the pending frames and reads once.
func (c *Conn) read() error {
	if c.wait {
		c.wait = false
		n, err := c.nc.Write(c.out)
		c.out = c.out[n:]
		if err != nil {
			return err
		}
	}
	return c.readOnce()
}

// step is not used on systems without access to a socket's descriptor.
func (c *Conn) step(uintptr) bool { return true }
