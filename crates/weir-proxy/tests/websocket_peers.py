"""Ends of a WebSocket over either version of HTTP: echoes what comes, or asks for an echo."""
import asyncio
import socket
import sys
import threading

import h2.config
import h2.connection
import h2.events
import h2.settings
import websockets.asyncio.client
import websockets.asyncio.server
import websockets.frames
import websockets.protocol

MESSAGES = ["hello", "x" * 70_000, "\u00e4\u00f6\u00fc"]


async def serve_h1():
    async def echo(connection):
        async for message in connection:
            await connection.send(message)

    async with websockets.asyncio.server.serve(echo, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()


async def ask_h1(port):
    async with websockets.asyncio.client.connect(f"ws://127.0.0.1:{port}/chat", proxy=None) as connection:
        for message in MESSAGES:
            await connection.send(message)
            assert await connection.recv() == message


class Wire:
    """An HTTP/2 connection with one WebSocket on it, in turns."""

    def __init__(self, wire, client):
        self.wire = wire
        self.core = h2.connection.H2Connection(h2.config.H2Configuration(client_side=client))
        offered = {h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL: 1}
        self.core.local_settings = h2.settings.Settings(client=client, initial_values=offered)
        self.core.initiate_connection()
        side = websockets.protocol.CLIENT if client else websockets.protocol.SERVER
        self.socket = websockets.protocol.Protocol(side, max_size=None)
        self.stream = 1
        self.flush()

    def flush(self):
        self.wire.sendall(self.core.data_to_send())

    def step(self):
        """What happened with the next octets."""
        data = self.wire.recv(65536)
        if not data:
            return None
        happened = self.core.receive_data(data)
        for event in happened:
            if isinstance(event, h2.events.DataReceived):
                self.core.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.socket.receive_data(event.data)
        self.flush()
        return happened

    def send(self, frames):
        data = b"".join(frames)
        while data:
            room = min(self.core.local_flow_control_window(self.stream), self.core.max_outbound_frame_size)
            if room:
                self.core.send_data(self.stream, data[:room])
                data = data[room:]
                self.flush()
            elif self.step() is None:
                raise EOFError
        if b"" in frames:
            self.core.end_stream(self.stream)
            self.flush()


def serve_h2():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=echo_h2, args=[listener.accept()[0]], daemon=True).start()


def echo_h2(connection):
    wire = Wire(connection, False)
    while (happened := wire.step()) is not None:
        for event in happened:
            if isinstance(event, h2.events.RequestReceived):
                assert (b":protocol", b"websocket") in event.headers, event.headers
                wire.stream = event.stream_id
                wire.core.send_headers(wire.stream, [(":status", "200")])
                wire.flush()
        for frame in wire.socket.events_received():
            if frame.opcode in (websockets.frames.Opcode.TEXT, websockets.frames.Opcode.CONT):
                wire.socket.send_frame(frame)
        wire.send(wire.socket.data_to_send())


def ask_h2(port):
    wire = Wire(socket.create_connection(("127.0.0.1", int(port))), True)
    while not wire.core.remote_settings.enable_connect_protocol:
        wire.step()
    wire.core.send_headers(
        1,
        [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":path", "/chat"),
            (":authority", f"127.0.0.1:{port}"),
            ("sec-websocket-version", "13"),
        ],
    )
    wire.flush()
    status = None
    while status is None:
        for event in wire.step():
            if isinstance(event, h2.events.ResponseReceived):
                status = dict(event.headers)[b":status"]
    assert status == b"200", status
    for message in MESSAGES:
        wire.socket.send_text(message.encode())
        wire.send(wire.socket.data_to_send())
        answer = b""
        while answer != message.encode():
            for frame in wire.socket.events_received():
                answer += frame.data
            if answer != message.encode():
                wire.step()


role, arguments = sys.argv[1], sys.argv[2:]
{
    "serve_h1": lambda: asyncio.run(serve_h1()),
    "serve_h2": serve_h2,
    "ask_h1": lambda port: asyncio.run(ask_h1(port)),
    "ask_h2": ask_h2,
}[role](*arguments)
