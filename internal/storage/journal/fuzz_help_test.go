package journal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// sealHeader corrects the checksum of an encoded header.
func sealHeader(b []byte) {
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:headerLen], castagnoli))
}

func crcMatches(frame []byte) bool {
	return binary.LittleEndian.Uint32(frame[4:]) == crc32.Checksum(frame[8:], castagnoli)
}

// frameIn reports whether the file's bytes contain the frame, including its checksum.
func frameIn(file []byte, f *Frame) bool {
	for at := dataStart; at+frameHeader <= len(file); at += 8 {
		b := file[at:]
		n := frameHeader + len(f.Payload)
		if len(b) >= n && binary.LittleEndian.Uint64(b[24:]) == uint64(f.LSN) && bytes.Equal(b[frameHeader:n], f.Payload) &&
			crcMatches(b[:n]) {
			return true
		}
	}
	return false
}
