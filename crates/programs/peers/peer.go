// Echo and HTTP in Go: see src/programs/peers.rs.
package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listen(address string) net.Listener {
	listener, err := net.Listen("tcp", address)
	check(err)
	fmt.Println("listening")
	return listener
}

func echoServe(address string) {
	listener := listen(address)
	for {
		connection, err := listener.Accept()
		check(err)
		go func() {
			defer connection.Close()
			io.Copy(connection, connection)
		}()
	}
}

func echoOnce(address string, size int) error {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	sent := make([]byte, size)
	rand.Read(sent)
	go func() {
		connection.Write(sent)
		connection.(*net.TCPConn).CloseWrite()
	}()
	received, err := io.ReadAll(connection)
	if err == nil && !bytes.Equal(received, sent) {
		err = fmt.Errorf("%d bytes came back of %d, or others", len(received), size)
	}
	return err
}

func echoCall(address string, count, size int) {
	ends := make(chan error)
	for i := 0; i < count; i++ {
		go func() { ends <- echoOnce(address, size) }()
	}
	for i := 0; i < count; i++ {
		check(<-ends)
	}
	fmt.Println("ok", count*size)
}

func httpServe(address string) {
	answer := func(to http.ResponseWriter, request *http.Request) {
		// Whole, because a server of HTTP/1 does not read on once it has begun to answer.
		body, err := io.ReadAll(request.Body)
		if err == nil {
			to.Write(body)
		}
	}
	check(http.Serve(listen(address), http.HandlerFunc(answer)))
}

func httpOnce(address string, size int) error {
	sent := make([]byte, size)
	rand.Read(sent)
	answer, err := http.Post("http://"+address+"/", "text/plain", bytes.NewReader(sent))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	received, err := io.ReadAll(answer.Body)
	if err == nil && !bytes.Equal(received, sent) {
		err = fmt.Errorf("another body came back")
	}
	return err
}

func httpCall(address string, count int) {
	ends := make(chan error)
	for worker := 0; worker < 8; worker++ {
		go func(worker int) {
			for i := worker; i < count; i += 8 {
				ends <- httpOnce(address, 1000+i)
			}
		}(worker)
	}
	for i := 0; i < count; i++ {
		check(<-ends)
	}
	fmt.Println("ok", count)
}

func number(at int) int {
	value, err := strconv.Atoi(os.Args[at])
	check(err)
	return value
}

func main() {
	address := net.JoinHostPort(os.Args[2], os.Args[3])
	switch os.Args[1] {
	case "echo-serve":
		echoServe(address)
	case "echo-call":
		echoCall(address, number(4), number(5))
	case "http-serve":
		httpServe(address)
	case "http-call":
		httpCall(address, number(4))
	}
}
