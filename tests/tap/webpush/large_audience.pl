# Tests that a Web Push reaches an audience of any size, with and without acknowledgements: no script of the store runs
# long, each user receives it once, and Web Pushes of other notifications do not wait.
use strict;
use warnings;

use Clairon::Test qw(amount wait_until token scratch);
use Clairon::Test::Neighbour;
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $MEMBERS = amount(20_000, 100_000);
my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";
my $service = Clairon::Test::PushService->new;
my $store   = Clairon::Test::store(options => [ '--slowlog-log-slower-than', 100_000, '--slowlog-max-len', 1000 ]);
my %conf    = ('webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/start',
    'webpush.origins' => $service->origin, 'webpush.allow_private' => 'on', 'webpush.delay' => '100ms');
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => \%conf);

sub http
{
    my ($claims, $method, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $body, Authorization => 'Bearer ' . token(%$claims));
}
sub publish
{
    my ($path, $type, $targets, %more) = @_;
    return http({ sub => 'app', publish => JSON::true }, POST => '/v1/notifications', { payload => {}, web_push => { title => $path },
        routing => { audience => { type => $type, targets => $targets }, %more } });
}
sub received
{
    my ($title) = @_;
    my @found = sort map { $_->{url} =~ s{^/201/}{}r } grep { JSON::decode_json($_->{plain})->{notification}{title} eq $title } $service->requests;
    return @found;
}
sub queue { return map { $store->sum('ZCARD', $_) } qw(webpush webpush_large webpush_commits) }

my @members = map { "m$_" } 1 .. $MEMBERS;
for (my $from = 0; $from < $MEMBERS; $from += 1000) { $store->execute('SADD', $store->shared('members:TEAM:all'), @members[ $from .. $from + 999 ]) }
my @subscribed = @members[ map { $_ * $MEMBERS / 10 } 0 .. 9 ];
http({ sub => $_ }, POST => '/v1/webpush/subscriptions', $service->subscription("201/$_")) for @subscribed, 'single';

# The relay has only the role gate, so that the queue stays.
$store->execute('CONFIG', 'RESETSTAT');
$store->execute('SLOWLOG', 'RESET');
my $before = Clairon::Test::Neighbour::cpu_times($store->pid);
my $response = publish(plain => TEAM => ['all']);
is($response->{status}, 201, 'a notification for a large group is accepted') or diag explain $response;
my $acked = publish(acked => TEAM => ['all'], retry => { ack_required => JSON::true });
is($acked->{status}, 201, 'as is one that must be acknowledged');
is(publish(named => USER => [ @members[ 0 .. 5000 ] ])->{status}, 201, 'and one for many named users');
is_deeply([ queue() ], [ 0, 3, 3 ], 'the users are not in the queue yet');
is($store->sum('SCARD', "webpush_users:$response->{json}{id}"), $MEMBERS, 'but in a set of their notification');
is($store->sum('HLEN', "ack:$acked->{json}{id}"), $MEMBERS, 'the acknowledgements are pending for each');
my %lifetime = map { $_ => $store->execute('PTTL', $_) } map { @{ $store->execute('KEYS', $_) } } '*:webpush*', '*:staged*';
is_deeply([ grep { $lifetime{$_} <= 0 } sort keys %lifetime ], [], 'all keys expire');
http({ sub => $subscribed[3] }, POST => '/v1/ack', { ids => [ $acked->{json}{id} ] });
publish(single => USER => ['single']);

my $most = 0;
my $sink = Clairon::Test::relay(undef, $store, roles => 'sink', wait => 0, conf => \%conf);
wait_until('a notification for one user is sent', sub { received('single') });
cmp_ok($store->sum('ZCARD', 'webpush_large'), '>', 0, 'before the large audiences are done');
wait_until('all Web Pushes are sent or dropped', sub { my ($queued) = my @queue = queue(); $most = $queued if $queued > $most; !grep { $_ } @queue }, 300);
is_deeply([ received('plain') ], [ sort @subscribed ], 'each user receives it once');
is_deeply([ received('acked') ], [ sort grep { $_ ne $subscribed[3] } @subscribed ], 'what was acknowledged is not sent');
is_deeply([ received('named') ], [ sort grep { substr($_, 1) <= 5001 } @subscribed ], 'named users receive theirs');
is_deeply($store->execute('KEYS', '*webpush*'), [], 'nothing is left in the store');
cmp_ok($most, '<=', 4000, "the queue remains short: $most");

# A script for all users would take longer. The time for which the store waits for a CPU does not count.
my $waited_ms = 1000 * (Clairon::Test::Neighbour::cpu_times($store->pid)->{wait} - $before->{wait});
my @slow = grep { / EVAL/ } map { int($_->[2] / 1000) . ' ms: ' . substr "@{ $_->[3] }", 0, 80 } @{ $store->execute('SLOWLOG', 'GET', 100) };
note for @slow;
ok(!(grep { /^(\d+)/ && $1 > 100 + $waited_ms } @slow), 'no script runs long');

done_testing();
