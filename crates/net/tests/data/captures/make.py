"""Makes library.pcapng with python-pcapng 2.1.1 (PyPI, Apache-2.0), which shares nothing with dpb: sections of both byte orders, kinds of blocks and
resolutions of times that Wireshark reads and does not write. Run in this folder; the file is the same each time."""

from pcapng import FileWriter
from pcapng import blocks, strictness

strictness.set_strictness(strictness.Strictness.NONE)
SECOND = 1_700_000_000


def frame(number, length):
    return bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]) + bytes([number]) * (length - 14)


def packet(kind, interface, units, data, length=None, **rest):
    return section.new_member(kind, interface_id=interface, timestamp_high=units >> 32, timestamp_low=units & 0xFFFFFFFF,
                              packet_data=data, packet_len=length or len(data), **rest)


with open("library.pcapng", "wb") as out:
    section = blocks.SectionHeader(endianness=">", options={"shb_userappl": "python-pcapng", "opt_comment": "big"})
    for resolution, offset, snap in [(0x80 | 30, 0, 262144), (3, SECOND, 0), (6, 0, 262144)]:
        options = {"if_name": "a name of seven words and more", "if_tsresol": bytes([resolution]), "if_tsoffset": offset}
        section.new_member(blocks.InterfaceDescription, link_type=1, snaplen=snap, options=options)
    # Of frames without Ethernet's header.
    section.new_member(blocks.InterfaceDescription, link_type=101, snaplen=0)
    writer = FileWriter(out, section)
    enhanced = blocks.EnhancedPacket
    for block in [
        # Half a second in units of 2^-30 seconds.
        packet(enhanced, 0, (SECOND << 30) + (1 << 29), frame(1, 60), options={"opt_comment": "an option behind it"}),
        packet(enhanced, 1, 250, frame(2, 61)),
        section.new_member(blocks.NameResolution, records=[]),
        packet(enhanced, 2, SECOND * 10**6 + 123456, frame(3, 62)),
        # Of which a part was kept.
        packet(enhanced, 2, SECOND * 10**6 + 123457, frame(4, 63), 1514),
        packet(enhanced, 3, SECOND * 10**6, bytes([0x45]) + bytes(19)),
        section.new_member(blocks.InterfaceStatistics, interface_id=2),
        packet(blocks.ObsoletePacket, 2, SECOND * 10**6 + 999999, frame(5, 64), drops_count=7),
    ]:
        writer.write_block(block)
    section = blocks.SectionHeader(endianness="<")
    section.new_member(blocks.InterfaceDescription, link_type=1, snaplen=70)
    writer.write_block(section)
    writer.write_block(section.new_member(blocks.SimplePacket, packet_data=frame(6, 99)[:70], packet_len=99))
    writer.write_block(section.new_member(blocks.SimplePacket, packet_data=frame(7, 61), packet_len=61))
