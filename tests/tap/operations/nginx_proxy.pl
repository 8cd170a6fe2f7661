# Tests two relays behind nginx with docker/nginx.conf: all transports deliver notifications, and a rolling restart with
# some seconds between stop and start loses no notification and rejects no connection.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch free_port top amount);
use Clairon::Test::Client;
use Mojo::IOLoop;
use Mojo::UserAgent;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

plan skip_all => 'node is not installed'  if system('node --version >/dev/null 2>&1') != 0;
plan skip_all => 'nginx is not installed' if !-x '/usr/sbin/nginx';

use constant { TURNS => 2, SOCKETS => 40, DOWN_SECONDS => amount(3, 6) };

package Nginx
{
    use parent -norequire, 'Clairon::Test::Process';
    sub command { return ('/usr/sbin/nginx', '-p', $_[0]{folder}, '-c', "$_[0]{folder}/nginx.conf", '-e', 'stderr') }
}

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true);
    CREATE TABLE enough (yes bool);
    CREATE PROCEDURE write_rows() LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1 .. 1000000 LOOP
            INSERT INTO t VALUES (i, 'u' || 1 + i % 3);
            COMMIT;
            EXIT WHEN EXISTS (SELECT FROM enough);
            PERFORM pg_sleep(0.002);
        END LOOP;
    END $$});
my $store  = Clairon::Test::store();
my @relays = map {
    Clairon::Test::relay($pg, $store,
        conf => { 'gate.drain' => '500ms', 'gate.trusted_proxies' => '127.0.0.1', 'gate.max_per_address' => 1000 }) } 1, 2;

# docker/nginx.conf is used unchanged, except for addresses.
my $port   = free_port();
my $folder = scratch();
my $conf   = slurp_file(top() . '/docker/nginx.conf');
my %ports  = (8080 => $port, 8081 => $relays[0]{port}, 8082 => $relays[1]{port});
is($conf =~ s/127\.0\.0\.1:(808[012])/127.0.0.1:$ports{$1}/g, 3, 'the configuration names two relays');
open my $file, '>', "$folder/nginx.conf" or die "could not write: $!";
print {$file} "daemon off;\npid $folder/nginx.pid;\nevents { worker_connections 512; }\nhttp {\naccess_log off;\nadd_header Upstream \$upstream_addr always;\n",
  (map { "${_}_temp_path $folder/$_;\n" } qw(client_body proxy fastcgi uwsgi scgi)), $conf, "}\n";
close $file;
my $nginx = bless { name => 'nginx', folder => $folder, log => "$folder/nginx.log" }, 'Nginx';
Clairon::Test::remember($nginx);
$nginx->start;
my $url = "http://127.0.0.1:$port";
my $agent = Mojo::UserAgent->new(request_timeout => 40, inactivity_timeout => 40);
my %bearer = (Authorization => 'Bearer ' . token(sub => 'u0', publish => \1));
wait_until('nginx serves requests', sub {
    eval { $agent->get("$url/v1/poll?wait=0" => \%bearer)->result->code } });

# Clients use plain HTTP.
is($agent->get("$url/metrics")->result->code, 404, 'internal paths are not forwarded');
my $pos = $agent->get("$url/v1/poll?wait=0" => \%bearer)->result->headers->header('Clairon-Pos');
my $response = $agent->post("$url/v1/notifications" => { %bearer, 'Idempotency-Key' => 'k1' } => json =>
      { payload => { said => 'hello' }, routing => { audience => { type => 'USER', targets => ['u0'] } } })->result;
is($response->code, 201, 'a notification is accepted');
my $received = '';
my $tx = $agent->build_tx(GET => "$url/v1/sse" => \%bearer);
$tx->res->content->unsubscribe('read')->on(read => sub { $received .= $_[1] });
my $agent2 = Mojo::UserAgent->new(inactivity_timeout => 0);
$agent2->start($tx => sub { });
my $late  = 0;
my $timer = Mojo::IOLoop->timer($Clairon::Test::SECONDS => sub { $late = 1 });
my $tick  = Mojo::IOLoop->recurring(0.02 => sub { });
Mojo::IOLoop->one_tick until $received =~ /"t":"connected"/ || $late;
like($received, qr/^data: .*"t":"connected"/m, 'nginx does not buffer SSE');
Mojo::IOLoop->remove($_) for $timer, $tick;
undef $agent2;
my $polled = $agent->get("$url/v1/poll?wait=20&pos=$pos" => \%bearer)->result;
like($polled->body, qr/"said":"hello"/, 'a poll returns the notification');
is($agent->post("$url/v1/ack" => \%bearer => json => { ids => [ $response->json->{id} ] })->result->code, 204,
    'an ack is accepted');

# The JavaScript client stays in use while the relays are restarted in turn.
my @pages = map { Clairon::Test::page(name => "page$_", websocket => 1, url => "$url/v1/ws",
        token => token(sub => "u$_")) } 1 .. 3;
for my $page (@pages) { wait_until('a page is open', sub { ($page->state->{state} // '') eq 'open' }) }

# Open WebSockets, which never end: without other requests, a proxy that marks a failed relay would not use it again.
my (@sockets, %failures);
my $often = Mojo::IOLoop->recurring(0.02 => sub { });    # ends an iteration of the loop without an event

sub reopen_sockets
{
    Mojo::IOLoop->one_tick for 1 .. 5;
    @sockets = grep { !$_->{closed} } @sockets;
    for (@sockets + 1 .. SOCKETS)
    {
        my $socket = eval { Clairon::Test::Client->new("$url/v1/ws") };
        my ($failure) = $@ =~ /^(.*)/;
        my $reply = $socket ? eval { $socket->connect(token(sub => "w$_")) } : { t => $failure };
        if ($socket && ($reply->{t} // '') eq 'connected') { push @sockets, $socket }
        elsif (!$socket || !$socket->{closed}) { $failures{ $reply->{t} // 'no reply' }++ }
    }
    return @sockets == SOCKETS;
}

wait_until('the WebSockets are open', \&reopen_sockets);
is_deeply(\%failures, {}, 'nginx accepts all WebSockets');

my $writer = IPC::Run::start([ 'psql', '-qAtX', '-d', $pg->connstr('postgres'), '-c', 'CALL write_rows()' ]);
for my $turn (1 .. TURNS)
{
    for my $relay (@relays)
    {
        my $seen = $pages[0]->rows;
        is($relay->stop, 0, "turn $turn: a relay drains");
        my $end = time + DOWN_SECONDS;
        wait_until('the relay is down for some seconds', sub { reopen_sockets(); time > $end });
        $relay->start;
        $relay->wait_ready;
        wait_until('the WebSockets are open again', \&reopen_sockets);
        wait_until('more rows arrive', sub { $pages[0]->rows > $seen });
        is_deeply(\%failures, {}, "turn $turn: all WebSockets reconnect immediately");
    }
}
$pg->safe_psql('postgres', 'INSERT INTO enough VALUES (true)');
ok($writer->finish, 'rows are written during the restarts');
my $rows = $pg->safe_psql('postgres', 'SELECT count(*) FROM t');
note("$rows rows are written");
for my $i (1 .. 3)
{
    my $page = $pages[ $i - 1 ];
    my @own = grep { 1 + $_ % 3 == $i } 1 .. $rows;
    wait_until("page $i has all rows", sub { $page->rows >= @own });
    is_deeply([ $page->rows ], \@own, "page $i receives each row once, in order");
    is(join(' ', $page->problems), '', "page $i reports no gap and no error");
}
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
my %stored = map { $_->{id} => 1 } $store->entries;
is(scalar keys %stored, $rows + 1, 'each row is stored');
kill TERM => $_->pid for @pages;
$_->wait_end for @pages;

done_testing();
