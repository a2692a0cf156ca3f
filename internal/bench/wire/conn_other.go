//go:build !unix

package wire

// read writes what is to be written and reads once.
func (c *Conn) read() error {
	if c.wait {
		c.wait = false
		n, err := c.tcp.Write(c.out)
		c.out = c.out[n:]
		if err != nil {
			return err
		}
	}
	n, err := c.tcp.Read(c.in[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// step has no use where a socket's descriptor cannot be had.
func (c *Conn) step(uintptr) bool { return true }
