/* ns-3: a bulk TCP transfer of three nodes. Two clients send to one server through a router, on links of 10 Gbit/s and 1 us, with an MTU
 * of 1500 bytes. One line of JSON: what was simulated, how long it took, and how many events were executed.
 *
 * Packages (Debian 12): g++ libns3-dev
 * Build: g++ -O2 -std=c++17 bulk_tcp.cc -o bulk_tcp \
 *            -lns3-applications -lns3-internet -lns3-traffic-control -lns3-point-to-point -lns3-network -lns3-core
 * Run:   ./bulk_tcp --seconds=0.1 --algorithm=TcpCubic
 */
#include <chrono>
#include <cstdio>
#include <string>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{

constexpr uint16_t PORT = 5001;

/* What Linux has and dpb's model: 1448 bytes of payload, ten segments at first, SACK, timestamps, buffers that never bind. */
void SetDefaults(const std::string& algorithm)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + algorithm));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(6 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(6 << 20));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
}

/* Connects two nodes, without the queueing discipline that an address brings: the device's queue is the only one. */
Ipv4InterfaceContainer Connect(PointToPointHelper& link, NodeContainer nodes, const char* network)
{
    NetDeviceContainer devices = link.Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase(network, "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices);
    return interfaces;
}

} // namespace

int main(int argc, char** argv)
{
    double seconds = 0.1;
    std::string algorithm = "TcpCubic";
    std::string queue = "256KiB";
    CommandLine arguments(__FILE__);
    arguments.AddValue("seconds", "Simulated time", seconds);
    arguments.AddValue("algorithm", "TcpCubic or TcpNewReno", algorithm);
    arguments.AddValue("queue", "Bytes that a port of the router holds", queue);
    arguments.Parse(argc, argv);
    SetDefaults(algorithm);

    NodeContainer nodes;
    nodes.Create(4);
    Ptr<Node> router = nodes.Get(3);
    InternetStackHelper().Install(nodes);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    link.SetDeviceAttribute("Mtu", UintegerValue(1500));
    link.SetChannelAttribute("Delay", StringValue("1us"));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(queue)));
    Connect(link, NodeContainer(nodes.Get(0), router), "10.0.1.0");
    Connect(link, NodeContainer(nodes.Get(1), router), "10.0.2.0");
    Ipv4InterfaceContainer server = Connect(link, NodeContainer(nodes.Get(2), router), "10.0.3.0");
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    ApplicationContainer sinks = sink.Install(nodes.Get(2));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(server.GetAddress(0), PORT));
    bulk.SetAttribute("SendSize", UintegerValue(65536));
    bulk.Install(NodeContainer(nodes.Get(0), nodes.Get(1)));

    Simulator::Stop(Seconds(seconds));
    const auto start = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    const uint64_t bytes = DynamicCast<PacketSink>(sinks.Get(0))->GetTotalRx();
    const uint64_t events = Simulator::GetEventCount();
    Simulator::Destroy();
    std::printf("{\"algorithm\":\"%s\",\"simulated_seconds\":%g,\"bytes\":%llu,\"wall_seconds\":%.6f,\"events\":%llu,"
                "\"events_per_second\":%.0f}\n",
                algorithm.c_str(),
                seconds,
                static_cast<unsigned long long>(bytes),
                wall.count(),
                static_cast<unsigned long long>(events),
                static_cast<double>(events) / wall.count());
    return 0;
}
