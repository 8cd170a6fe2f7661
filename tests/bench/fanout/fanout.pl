# Measures how fast one relay delivers messages to many clients, and the cost of an idle client.
#
# One client (load.c) measures the servers one after the other, over the loopback interface. For the relay, the
# measurement starts at the store. Compare only figures of the same run. `cpu` is the server's CPU time for a million
# deliveries, which is reliable even on a busy machine. BENCH=full runs every combination, and longer;
# FANOUT_ONLY=clairon,floor selects servers.
use strict;
use warnings;

use Clairon::Test qw(wait_until free_port scratch token);
use Clairon::Test::RawSocket;
use JSON ();
use Targets;
use Test::More;
use Time::HiRes qw(time);

my $bench_folder = Clairon::Test::top() . '/tests/bench/fanout';
my $built = $ENV{FANOUT_BUILT} or die "FANOUT_BUILT must name the folder of load and floor\n";
my $full  = ($ENV{BENCH} // '') eq 'full';
my $most  = $ENV{FANOUT_SECONDS} // ($full ? 3 : 1);
my @only  = split /,/, $ENV{FANOUT_ONLY} // 'floor,stored,clairon,nchan,ws,socketio';
my $parts = $ENV{FANOUT_PARTS} // 'fan,idle,commit,post';

# The plan: numbers of clients, bytes, shapes, servers, and rounds of alternating servers. The usual size is measured in
# all combinations, other sizes only where they have a target.
my @clients = split /,/, $ENV{FANOUT_CLIENTS} // '1,100,1000,10000';
my @usual   = ([@clients], 1024, [qw(single alone each burst)], [@only], $ENV{FANOUT_ROUNDS} // 3);
my @plan    = map { [ [@clients], $_, [qw(single burst)], [qw(floor stored clairon nchan)], 1 ] } 128, 4096;
@plan = map { [ $usual[0], $_, @usual[ 2 .. 4 ] ] } 128, 4096 if $full;
@plan = (\@usual, @plan);
@plan = map { [ $usual[0], $_, @usual[ 2 .. 4 ] ] } split /,/, $ENV{FANOUT_BYTES} if $ENV{FANOUT_BYTES};
my %shape_wanted = map { $_ => 1 } split /,/, $ENV{FANOUT_SHAPES} // 'single,alone,each,burst';

sub figure { note(sprintf "bench: %s", join ' ', @_); return }

my %children;
END { kill KILL => keys %children }

# Starts a server that prints `ready`; returns its pid.
sub start_server
{
    my (@command) = @_;
    my $pid = open my $out, '-|', @command or die "could not start $command[0]: $!\n";
    $children{$pid} = $out;
    my $line = <$out> // '';
    $line =~ /ready/ or die "$command[0] did not start\n";
    return $pid;
}

sub stop_server
{
    my ($pid) = @_;
    kill TERM => $pid;
    close delete $children{$pid};
    return;
}

sub write_file
{
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!\n";
    print {$file} $text;
    close $file or die "$path: $!\n";
    return $path;
}

# Runs load; returns its figures.
sub load
{
    my (%options) = @_;
    my @flags = map { defined $options{$_} ? ("--$_", $options{$_}) : "--$_" } sort keys %options;
    my $line  = '';
    open my $out, '-|', "$built/load", @flags or die "load: $!\n";
    while (defined(my $read = <$out>)) { $line = $read; }
    close $out or return;
    return { $line =~ /(\w+)=(\S+)/g };
}

my $store = Clairon::Test::store(options => [ '--appendonly', 'no' ]);

# For each server, a sub that starts the server. The sub returns options for load, and a sub that stops the server.
my %servers = (
    floor => sub {
        my @ports = (free_port(), free_port());
        my $pid   = start_server("$built/floor", @ports);
        return ({ port => $ports[0], control => $ports[1], pids => $pid }, sub { stop_server($pid) });
    },
    stored => sub {
        my $port = free_port();
        my $pid  = start_server("$built/floor", $port, $store->{socket});
        return ({ port => $port, store => $store->{socket}, pids => join(',', $pid, $store->pid) },
            sub { stop_server($pid) });
    },
    clairon => sub {
        my $relay = Clairon::Test::relay(undef, $store, roles => 'gate',
            conf => { 'relay.log_level' => 'info', 'gate.drain' => '0s', 'gate.ping' => '10m', 'gate.connect_timeout' => '1m' });
        my $pids = join ',', $relay->pid, $store->pid;
        return ({ port => $relay->{port}, store => $store->{socket}, pids => $pids,
                secret => $Clairon::Test::SECRET }, sub { $relay->stop }, $relay);
    },
    nchan => \&start_nchan,
    (map { my $kind = $_; ($kind => sub { return start_node($kind) }) } qw(ws socketio)));

sub start_node
{
    my ($kind) = @_;
    my @ports = (free_port(), free_port());
    local $ENV{NODE_PATH} = "$built/node_modules";
    -d "$ENV{NODE_PATH}/ws" or return;
    my $pid = start_server('node', "$bench_folder/peer.js", $kind, @ports);
    return ({ port => $ports[0], control => $ports[1], pids => $pid }, sub { stop_server($pid) });
}

sub start_nchan
{
    my $module = '/usr/lib/nginx/modules/ngx_nchan_module.so';
    my $folder = scratch();
    my $port   = free_port();
    -e $module && -x '/usr/sbin/nginx' or return;
    write_file("$folder/nginx.conf", <<"END");
load_module $module;
daemon off; master_process off; pid $folder/nginx.pid; error_log $folder/nginx.log crit;
worker_rlimit_nofile 20000;
events { worker_connections 19500; }
http {
    access_log off; client_body_temp_path $folder/b; proxy_temp_path $folder/p;
    fastcgi_temp_path $folder/f; uwsgi_temp_path $folder/u; scgi_temp_path $folder/s;
    keepalive_requests 100000000; client_max_body_size 1m; client_body_buffer_size 64k;
    nchan_shared_memory_size 256M;
    server {
        listen 127.0.0.1:$port backlog=4096;
        location ~ ^/sub/(\\w+)\$ { nchan_subscriber websocket; nchan_channel_id \$1; nchan_websocket_ping_interval 0; }
        location ~ ^/pub/(\\w+)\$ { nchan_publisher http; nchan_channel_id \$1; nchan_message_buffer_length 64; }
    }
}
END
    my $pid = fork // die "fork: $!\n";
    exec '/usr/sbin/nginx', '-c', "$folder/nginx.conf", '-e', "$folder/nginx.log" or die "nginx: $!\n"
      if $pid == 0;
    open $children{$pid}, '<', '/dev/null' or die;
    wait_until('nginx listens', sub { IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port) });
    return ({ port => $port, control => $port, pids => $pid },
        sub { kill TERM => $pid; waitpid $pid, 0; delete $children{$pid} });
}

# The number of bursts in flight that keeps a server busy. With two bursts, a relay that falls behind sends both in one
# call. With one burst, the relay sends each burst separately, after a round trip.
sub window
{
    my ($clients, $shape) = @_;
    return 1 if $shape eq 'alone';
    return $clients >= 1000 ? 2 : $clients >= 64 ? int(1000 / $clients) : 16;
}

my %shapes = (single => {}, alone => {}, each => { each => undef }, burst => { burst => 16 });
my @table;

# Runs one server once; returns undef when the server is not installed or has failed.
sub run_once
{
    my ($kind, $clients, $bytes, $shape) = @_;
    my ($options, $end) = $servers{$kind}->();
    if (!$options) { figure("$kind is not installed, skipped"); return; }
    my %load = (kind => $kind, clients => $clients, bytes => $bytes, seconds => $most,
        window => window($clients, $shape), %$options, %{ $shapes{$shape} });
    # nchan sometimes loses pipelined posts; in that case, wait for each reply.
    my $got = load(%load) // ($kind eq 'nchan' ? load(%load, window => 1, patient => undef) : undef);
    $end->();
    figure("$shape $clients x $bytes: $kind failed") if !$got;
    return $got;
}

# Returns the median run, by rate.
sub middle { my @runs = sort { $a->{rate} <=> $b->{rate} } @_; return $runs[ @runs / 2 ] }

# The compared servers run alternately, so that noise affects all of them.
sub measure_fan
{
    my ($clients, $bytes, $shape, $kinds, $rounds) = @_;
    my %runs;
    for my $round (1 .. $rounds)
    {
        for my $kind (grep { $round == 1 || /^(floor|stored|clairon)$/ } @$kinds)
        {
            next if $shape eq 'alone' && ($clients < 1000 || $kind !~ /^(floor|stored|clairon)$/);
            next if $clients >= 10000 && $kind =~ /^(ws|socketio)$/ && !$full;
            my $got = run_once($kind, $clients, $bytes, $shape) or next;
            push @{ $runs{$kind} }, $got;
        }
    }
    my %got = map { $_ => middle(@{ $runs{$_} }) } keys %runs;
    my $floor = $got{floor};
    for my $kind (grep { $got{$_} } @$kinds)
    {
        my $ratios = '';
        $ratios = sprintf '  x floor: rate %.2f, cpu %.2f', $got{$kind}{rate} / $floor->{rate},
          $floor->{cpu0} / $got{$kind}{cpu0} if $floor;
        figure(sprintf '%-6s N=%-5d %4d B  %-8s %9d /s  cpu %6.2f s/M%s%s', $shape, $clients, $bytes, $kind,
            $got{$kind}{rate}, $got{$kind}{cpu0}, $ratios, defined $got{$kind}{cpu1} ? "  (store $got{$kind}{cpu1})" : '');
    }
    check_targets($shape, $clients, $bytes, \%got) if $floor && $got{clairon};
    return;
}

# Targets as shares of the floor's rate and as multiples of nchan's rate; "each" has no target. Where the store's time
# dominates (one client, "alone"), the floor is `stored`; with one client, CPU times are compared. Copying in the kernel
# limits bursts of 4 kB, so these have no target relative to nchan.
my %targets = (single => { floor => 0.9, nchan => 1 }, alone => { stored => 0.9 }, burst => { floor => 0.8, nchan => 10 });

sub targets_of
{
    my ($shape, $clients, $bytes) = @_;
    my $target = $targets{$shape} or return;
    return { stored_cpu => 0.9 } if $clients == 1;
    return { floor => $target->{floor} } if $shape eq 'burst' && $bytes >= 4096;
    return $target;
}

# Compares the servers' rates, which the load client on the same machine reduces, and their CPU times. A relay reads its
# messages from the store; `stored` shows the cost of the store.
sub check_targets
{
    my ($shape, $clients, $bytes, $got) = @_;
    my $target = targets_of($shape, $clients, $bytes) or return;
    my ($own, $floor, $stored, $nchan) = @{$got}{qw(clairon floor stored nchan)};
    my $what = sprintf 'fan-out, %s, %d B, N=%d', $shape, $bytes, $clients;
    if ($target->{stored_cpu})
    {
        my $share = $stored ? $stored->{cpu0} / $own->{cpu0} : return;
        return Targets::record("$what: CPU of a floor behind the store", sprintf('at least %.1f', $target->{stored_cpu}),
            sprintf('%.2f', $share), $share >= $target->{stored_cpu}, sprintf 'rate %.2f; of the floor %.2f',
            $own->{rate} / $stored->{rate}, $own->{rate} / $floor->{rate});
    }
    if ($target->{stored})
    {
        my $share = $stored ? $own->{rate} / $stored->{rate} : return;
        return Targets::record("$what: of a floor behind the store", sprintf('at least %.1f', $target->{stored}),
            sprintf('%.2f', $share), $share >= $target->{stored}, sprintf 'CPU %.2f; of the floor %.2f, CPU %.2f',
            $stored->{cpu0} / $own->{cpu0}, $own->{rate} / $floor->{rate}, $floor->{cpu0} / $own->{cpu0});
    }
    my $share = $own->{rate} / $floor->{rate};
    my $word  = sprintf 'CPU %.2f', $floor->{cpu0} / $own->{cpu0};
    $word .= sprintf '; of a floor behind the store %.2f, CPU %.2f', $own->{rate} / $stored->{rate},
      $stored->{cpu0} / $own->{cpu0} if $stored;
    $word .= sprintf '; nchan itself %.2f of the floor', $nchan->{rate} / $floor->{rate} if $nchan;
    Targets::record("$what: of the floor", sprintf('at least %.1f', $target->{floor}), sprintf('%.2f', $share),
        $share >= $target->{floor}, $word);
    return if !$nchan || !$target->{nchan};
    my $times = $own->{rate} / $nchan->{rate};
    Targets::record("$what: times nchan", "at least $target->{nchan}", sprintf('%.1f', $times), $times >= $target->{nchan});
    return;
}

# Clients that connect, disconnect and reconnect simultaneously must not need more memory than single clients.
sub measure_simultaneous
{
    my ($clients, $times) = @_;
    my ($options, $end, $relay) = $servers{clairon}->();
    my %load = (kind => 'clairon', clients => $clients, seconds => 1, idle => undef, simultaneous => undef, %$options);
    my ($before, $got);
    load(%load, clients => 1); # loads what all clients share
    for (1 .. $times)
    {
        $got = load(%load) or last;
        $before //= $got->{rss_before_kb};
        wait_until('all connections are closed', sub { ($relay->metric('clairon_gate_connections') // 1) == 0 });
    }
    $end->();
    my $bytes = $got ? sprintf '%.0f', ($got->{rss_after_kb} - $before) * 1024 / $clients : 'failed';
    my $what = "memory of an idle connection, connected simultaneously, $times times, $clients of them";
    Targets::record($what, 'at most 2400 B', "$bytes B", $got && $bytes <= 2400); # all connect before any client authenticates
    figure(sprintf 'idle   N=%-5d clairon  %s bytes resident per connection, connected simultaneously, %d times', $clients, $bytes, $times);
    return;
}

sub measure_idle
{
    my ($clients) = @_;
    for my $kind (grep { !/^(floor|stored)$/ && ($_ eq 'clairon' || $clients <= 10000) } @only)
    {
        my ($options, $end) = $servers{$kind}->();
        next if !$options;
        my $got = load(kind => $kind, clients => $clients, seconds => 1, idle => undef, %$options);
        $end->();
        my $target = $kind eq 'clairon' ? '  (aim: at most 2100)' : '';
        Targets::record("memory of an idle connection, $clients of them", 'at most 2100 B', "$got->{bytes_per_connection} B",
            $got->{bytes_per_connection} <= 2100) if $target && $got;
        figure(sprintf 'idle   N=%-5d         %-8s %s bytes resident per connection%s', $clients, $kind,
            $got ? $got->{bytes_per_connection} : 'failed', $target);
    }
    return;
}

# Measures the latency from PostgreSQL's commit to the client, at a steady rate.
sub measure_commit
{
    my ($audience, $clients, $rate, $seconds, $aim) = @_; # $aim: p50 in ms
    my $pg = Clairon::Test::postgresql("main_\L${audience}_$rate");
    $pg->safe_psql('postgres', "CREATE TABLE t (id bigserial PRIMARY KEY, owner text, body text);"
          . "SELECT clairon.watch('t', '$audience'" . ($audience eq 'ALL' ? '' : ", 'owner'") . ')');
    my $own   = Clairon::Test::store(options => [ '--appendonly', 'no' ]);
    my $relay = Clairon::Test::relay($pg, $own,
        conf => { 'relay.log_level' => 'info', 'gate.drain' => '0s', 'gate.ping' => '10m' });
    my $sql = write_file(scratch() . '/insert.sql',
        "\\set n random(0, " . ($clients - 1) . ")\nINSERT INTO t (owner, body) VALUES ('u' || :n, repeat('x', 500));\n");
    open my $out, '-|', "$built/load", '--kind', 'clairon', '--port', $relay->{port}, '--clients', $clients,
      '--secret', $Clairon::Test::SECRET, '--listen', '--latency', '--seconds', $seconds, '--pids', $relay->pid
      or die "load: $!\n";
    <$out> // die "load did not start\n";
    my $bindir = qx{pg_config --bindir};
    chomp $bindir;
    system('pgbench', '-n', '-c', 2, '-R', $rate, '-T', $seconds + 1, '-f', $sql, '-h', $pg->host, '-p', $pg->port,
        '-U', scalar(getpwuid $<), 'postgres') == 0 or diag('pgbench failed');
    my $line = <$out> // '';
    close $out;
    my %got = $line =~ /(\w+)=(\S+)/g;
    $_->stop for $relay, $own, $pg;
    figure(sprintf 'commit to client, %d /s, each to %s: p50 %.2f ms, p99 %.2f ms, %d deliveries/s, cpu %.2f s/M%s',
        $rate, $audience eq 'ALL' ? "all $clients" : "one of $clients", ($got{p50_us} // 0) / 1000,
        ($got{p99_us} // 0) / 1000, $got{rate} // 0, $got{cpu0} // 0,
        $audience eq 'USER' ? sprintf('  (aim: %.2f ms, 4.1 ms)', $aim) : '');
    return if $audience eq 'ALL'; # no target: a million messages per second is the limit of one core
    my $what = "commit to client, $rate /s, each to one of $clients";
    Targets::record("$what, p50", "at most $aim ms", sprintf('%.2f ms', $got{p50_us} / 1000), $got{p50_us} <= 1000 * $aim);
    Targets::record("$what, p99", 'at most 4.1 ms', sprintf('%.2f ms', $got{p99_us} / 1000), $got{p99_us} <= 4100);
    return;
}

# CPU time of a process with one thread, in microseconds.
sub cpu_us
{
    my ($pid) = @_;
    open my $stat, '<', "/proc/$pid/schedstat" or die "schedstat: $!\n";
    my ($ns) = split / /, scalar <$stat>;
    return $ns / 1000;
}

# Publishes one notification after the other. A connection serves $per_connection requests.
sub measure_posts
{
    my ($count, $per_connection) = @_;
    my ($options, $end, $relay) = $servers{clairon}->();
    my $bearer = 'Authorization: Bearer ' . token(sub => 'server', publish => JSON::true);
    my $body   = '{"metadata":{"source":"orders"},"payload":{"before":null,"after":{"id":1,"text":"' . 'x' x 500
      . '"}},"routing":{"audience":{"type":"USER","targets":["u1"]}}}';
    my $request = join "\r\n", 'POST /v1/notifications HTTP/1.1', 'Host: x', $bearer, 'Content-Length: ' . length $body, '', $body;
    my ($socket, $used) = (undef, 0);
    for my $round (0 .. 1) # the first round warms up
    {
        $used = cpu_us($relay->pid);
        for my $number (0 .. $count - 1)
        {
            $socket = Clairon::Test::RawSocket->new($relay) if $number % $per_connection == 0;
            $socket->write($request);
            my $status = $socket->read_response->{status};
            die "a publication has status $status\n" if $status != 201;
        }
        $used = (cpu_us($relay->pid) - $used) / $count;
    }
    $end->();
    my $what = $per_connection > 1 ? 'on a kept connection' : 'on a new connection';
    figure(sprintf 'post, 600 B, %s: %.0f us of CPU of the relay', $what, $used);
    Targets::record("CPU of the relay for a POST $what", 'at most 90 us', sprintf('%.0f us', $used), $used <= 90) if $per_connection > 1;
    return;
}

sub measure_fans
{
    for my $case (@plan)
    {
        my ($numbers, $bytes, $shapes, $kinds, $rounds) = @$case;
        for my $clients (@$numbers)
        {
            measure_fan($clients, $bytes, $_, $kinds, $rounds) for grep { $shape_wanted{$_} } @$shapes;
        }
    }
    return;
}

measure_fans() if $parts =~ /fan/;
if ($parts =~ /idle/) 
{
    measure_idle($_) for 10000, 19000;
    measure_simultaneous(19000, 3) if grep { $_ eq 'clairon' } @only;
}
if ($parts =~ /commit/)
{
    measure_commit('USER', 1000, 1000, $full ? 10 : 5, 0.45);
    measure_commit('USER', 1000, 100, 10, 0.9);
    measure_commit('ALL', 1000, 1000, $full ? 10 : 5);
}
if ($parts =~ /post/ && grep { $_ eq 'clairon' } @only)
{
    measure_posts(5000, 500);
    measure_posts(2000, 1);
}
pass('measured');
done_testing();
