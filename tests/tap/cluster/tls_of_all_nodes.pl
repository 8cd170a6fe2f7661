# Tests a cluster over TLS: the relay verifies the certificate of each node, including a node that joins later, and
# follows a failover.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $authority = Clairon::Test::Authority->new;
my $tls       = $authority->certificate('IP:127.0.0.1');
my %trusted   = Clairon::Test::Authority::settings($tls);
my $pg        = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});

# hiredis before 1.0 does not support TLS.
if (system('pkg-config --exists hiredis_ssl') != 0)
{
    for my $url ('rediss+cluster://127.0.0.1:7000,127.0.0.1:7001', 'rediss+sentinel://127.0.0.1:7000/clairon')
    {
        my $relay = Clairon::Test::relay($pg, undef, start => 0, conf => { 'store.url' => $url });
        my ($status, undef, $errors) = $relay->run('relay', '--check');
        is($status, 2, "$url is rejected");
        like($errors, qr/relay\.conf:\d+: .*TLS requires hiredis 1\.0/, 'the error has the line number and the reason');
    }
    done_testing();
    exit;
}

my $cluster = Clairon::Test::store_cluster(tls => $tls);
for ([ 'an unknown CA', { %trusted, 'store.tls_ca' => undef }, qr/certificate verify failed/ ],
    [ 'a missing client certificate', { 'store.tls_ca' => $tls->{ca} }, qr/could not find the primaries of the store/ ])
{
    my ($what, $conf, $reason) = @$_;
    my $relay = Clairon::Test::relay($pg, $cluster, start => 0, wait => 0, conf => $conf);
    $relay->start;
    $relay->wait_for_log($reason);
    pass("$what is logged");
    $relay->stop;
    is(scalar(grep { $cluster->execute('EXISTS', $_) } $cluster->keys('meta')), 0, 'no notification is stored');
}

my $relay   = Clairon::Test::relay($pg, $cluster, conf => { %trusted, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h' });
my %clients = map { $_ => $relay->client("u$_") } 1 .. 8;

sub insert { return split /\n/, $pg->safe_psql('postgres', q{INSERT INTO t (owner) SELECT 'u' || i FROM generate_series(1, 8) i RETURNING id}) }

sub check_delivered
{
    my ($what, @ids) = @_;
    for my $user (sort keys %clients)
    {
        $clients{$user}->wait_row($ids[ $user - 1 ]);
        $clients{$user}->ack(map { $_->{metadata}{id} } $clients{$user}->notifications);
    }
    wait_until("$what: all acknowledgements are stored", sub { $cluster->pending == 0 });
    return pass("$what: notifications are delivered and acknowledged");
}

check_delivered('over TLS', insert());
my ($status, undef, $errors) = $relay->run('errors', 'list');
is($status, 0, 'clairon errors reads from all nodes over TLS') or diag $errors;

my $former = $cluster->primary_of(0);
$former->kill9;
check_delivered('after a failover', insert());
isnt($cluster->wait_failover(0, $former), $former, 'another node is the primary');
$cluster->heal;

# The CA has signed the new node's certificate, but the certificate has another address.
my $shard = $cluster->shard_of('u1');
my $home  = $cluster->primary_of($shard);
my $other = $cluster->add_node($authority->certificate('IP:127.0.0.2'));
my $mark  = $relay->log_mark;
$cluster->move($shard, $other);
my @ids = insert();
$relay->wait_for_log(qr/certificate verify failed.*:$other->{announced}|$other->{announced}.*certificate verify failed/, from => $mark);
is($other->execute('XLEN', "clairon:{$shard}:stream"), 2, 'the relay writes nothing to a node whose certificate has another address');
$cluster->move($shard, $home);
check_delivered('after its shard has moved to another node', @ids);
is($cluster->stored, 24, 'each row is stored once');
wait_confirmed($pg);
pass('the slot advances');

done_testing();
