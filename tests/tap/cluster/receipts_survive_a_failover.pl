# Tests receipts in a cluster: what GET /v1/receipts has returned survives the death of a primary, and each pair and each
# notification still has one outcome, read through any relay.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $cluster = Clairon::Test::store_cluster();
my @relays  = map { Clairon::Test::relay(undef, $cluster, roles => 'gate') } 1 .. 2;
my @USERS   = map { "u$_" } 1 .. 12;
my %clients = map { $USERS[$_] => $relays[ $_ % 2 ]->client($USERS[$_]) } 0 .. $#USERS;

sub http { my ($relay, $method, $path, %more) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method => $path, Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true, admin => JSON::true), %more) }
# As a sender does: a 503 is repeated with the same idempotency key.
my $published = 0;
sub publish { my (@targets) = @_;
    my $key = 'publish ' . ++$published;
    my $response;
    wait_until('a notification is published', sub {
        $response = http($relays[0], POST => '/v1/notifications', 'Idempotency-Key' => $key, ':body' => { payload => {},
            routing => { audience => { type => 'USER', targets => [@targets] }, retry => { ack_required => JSON::true }, receipts => 'user' } });
        return $response->{status} != 503 });
    like($response->{status}, qr/\A20[01]\z/, 'a notification is published') or die $response->{body};
    return $response->{json}{id} }
sub receipts { my ($relay) = @_;
    my ($cursor, %count) = ('');
    while (1)
    {
        my $page = http($relay, GET => "/v1/receipts?limit=10&after=$cursor");
        return undef unless $page->{status} == 200;
        $cursor = $page->{json}{next};
        my @ids = map { $_->{id} } @{ $page->{json}{receipts} } or return \%count;
        $count{$_}++ for @ids;
    }
}
sub acked { my ($id, @users) = @_; return ((map { "$id:$_:acked:1" } @users), "$id\::acked:1") }
sub receive_and_ack { my ($id, @users) = @_;
    for my $client (map { $clients{$_} } @users) { $client->run_until('the notification arrives', sub { grep { $_->{metadata}{id} eq $id } $client->notifications }); $client->ack($id) }
    return }
sub wait_receipts { my ($name, @ids) = @_;
    for my $relay (@relays)
    {
        my $found;
        eval { wait_until($name, sub { $found = receipts($relay) or return; join(' ', sort keys %$found) eq join(' ', sort @ids) }) };
        is_deeply($found, { map { $_ => 1 } @ids }, $name);
    }
    return }

my @wanted;
for my $users (map({ [$_] } @USERS), [@USERS])
{
    my $id = publish(@$users);
    receive_and_ack($id, @$users);
    push @wanted, acked($id, @$users);
}
wait_receipts('each pair and each notification has a receipt', @wanted);

my ($dead) = $cluster->primary_of(0);
my $during = publish('u1');
$dead->kill9;
push @wanted, acked($during, 'u1');
receive_and_ack($during, 'u1');
wait_until('the shard has another primary', sub { my $primary = eval { $cluster->primary_of(0) }; $primary && $primary != $dead });
is(receipts($relays[0]), undef, 'receipts that no replica has are not read');
$dead->start;
my $after = publish(@USERS[ 0 .. 2 ]);
receive_and_ack($after, @USERS[ 0 .. 2 ]);
push @wanted, acked($after, @USERS[ 0 .. 2 ]);
wait_receipts('after a failover each receipt exists once', @wanted);

done_testing();
