/* ns-3: the throughput of one TCP transfer under planted loss. One sender, one receiver, 100 ms there and back, links that are never busy,
 * windows that never bind. One line a case: the law, b (segments an acknowledgement covers), the losses, p, segments with data a second
 * that entered the link, retransmissions among them, and how often the retransmission timer expired. Its output is
 * crates/sim/tests/data/ns3_loss.txt, which the test `throughput` of dpb-sim reads.
 *
 * Packages (Debian 12): g++ libns3-dev
 * Build: g++ -O2 -std=c++17 loss_tcp.cc -o loss_tcp \
 *            -lns3-applications -lns3-internet -lns3-traffic-control -lns3-point-to-point -lns3-network -lns3-core
 * Run:   ./loss_tcp            (some twenty minutes; a law's name behind it: only that one)
 */
#include <algorithm>
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
/* Simulated seconds before, and while, segments are counted. */
constexpr double WARM = 50;
constexpr double COUNTED = 4000;

/* Loses segments with data: each `period`-th, or each with the probability `share`. Acknowledgements pass. */
class PlantedLoss : public ErrorModel
{
  public:
    uint64_t period = 0;
    double share = 0;
    uint64_t seen = 0;
    Ptr<UniformRandomVariable> random = CreateObject<UniformRandomVariable>();

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        if (packet->GetSize() < 500)
        {
            return false;
        }
        seen++;
        return period > 0 ? seen % period == 0 : random->GetValue() < share;
    }

    void DoReset() override
    {
        seen = 0;
    }
};

/* ns-3's NewReno halves what is in the network, without the segments that duplicates showed to have left. RFC 5681, equation 4, halves all
 * that is outstanding, but for limited transmit's segments. This law differs in nothing else. */
class HalfOfFlight : public TcpNewReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::HalfOfFlight").SetParent<TcpNewReno>().AddConstructor<HalfOfFlight>();
        return id;
    }

    std::string GetName() const override
    {
        return "HalfOfFlight";
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> state, uint32_t) override
    {
        const uint32_t outstanding = state->m_highTxMark.Get() - state->m_lastAckedSeq;
        const uint32_t flight = std::min(outstanding, state->m_cWnd.Get());
        return std::max(2 * state->m_segmentSize, flight / 2);
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<HalfOfFlight>(this);
    }
};

NS_OBJECT_ENSURE_REGISTERED(HalfOfFlight);

struct Case
{
    const char* algorithm;
    uint32_t b;
    uint64_t period;
    double share;
};

uint64_t timeouts;

void CongestionState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now)
{
    timeouts += now == TcpSocketState::CA_LOSS;
}

void Watch()
{
    Config::ConnectWithoutContext("/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/CongState", MakeCallback(&CongestionState));
}

void Run(const Case& given, uint32_t seed)
{
    RngSeedManager::SetRun(seed);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue(std::string("ns3::") + given.algorithm));
    /* RFC 6675 lowers the window at once, as dpb's model does; ns-3's default spreads it over a round trip (RFC 6937). */
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", StringValue("ns3::TcpClassicRecovery"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(500 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(500 << 20));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(given.b));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

    NodeContainer nodes;
    nodes.Create(2);
    InternetStackHelper().Install(nodes);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("1000Gbps"));
    link.SetChannelAttribute("Delay", StringValue("50ms"));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
    NetDeviceContainer devices = link.Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices);
    Ptr<PlantedLoss> loss = CreateObject<PlantedLoss>();
    loss->period = given.period;
    loss->share = given.share;
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(loss));

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    sink.Install(nodes.Get(1));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), PORT));
    bulk.SetAttribute("SendSize", UintegerValue(14480));
    bulk.Install(nodes.Get(0));

    uint64_t before = 0;
    timeouts = 0;
    Simulator::Schedule(Seconds(WARM), [&before, loss]() {
        before = loss->seen;
        Watch();
    });
    Simulator::Stop(Seconds(WARM + COUNTED));
    Simulator::Run();
    const double rate = static_cast<double>(loss->seen - before) / COUNTED;
    Simulator::Destroy();
    const double p = given.period > 0 ? 1.0 / static_cast<double>(given.period) : given.share;
    std::printf("%s %u %s %g %u %.3f %llu\n",
                given.algorithm,
                given.b,
                given.period > 0 ? "periodic" : "random",
                given.period > 0 ? static_cast<double>(given.period) : p,
                seed,
                rate,
                static_cast<unsigned long long>(timeouts));
    std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv)
{
    const std::string only = argc > 1 ? argv[1] : "";
    std::printf("# law b losses p-or-period seed segments-a-second timeouts; ns-3 3.37\n");
    for (const char* algorithm : {"TcpNewReno", "HalfOfFlight"})
    {
        if (!only.empty() && only != algorithm)
        {
            continue;
        }
        for (uint32_t b : {1, 2})
        {
            for (uint64_t period : {1000, 333, 100, 33})
            {
                Run({algorithm, b, period, 0}, 1);
            }
            for (double share : {0.001, 0.003, 0.01, 0.03})
            {
                for (uint32_t seed : {1, 2, 3})
                {
                    Run({algorithm, b, 0, share}, seed);
                }
            }
        }
    }
    return 0;
}
