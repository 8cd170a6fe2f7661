# Tests that an escalation is sent to a user with a session, if it takes place while a relay checks this user's presence for
# the first Web Push.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::DelayedReplies;
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";
my $service = Clairon::Test::PushService->new;
my $store   = Clairon::Test::store();
my $late    = Clairon::Test::delayed_replies($store->{socket});
my %conf    = ('webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/',
    'webpush.origins' => $service->origin, 'webpush.allow_private' => 'on', 'webpush.delay' => '100ms', 'delivery.ack_timeout' => '1h');
my $gate = Clairon::Test::relay(undef, $store, roles => 'gate', conf => \%conf);
my $sink = Clairon::Test::relay(undef, $late, roles => 'sink', wait => 0, conf => \%conf);

sub http
{
    my ($claims, $method, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($gate)->request($method, $path, ':body' => $body, Authorization => 'Bearer ' . token(%$claims));
}
sub publish
{
    return http({ sub => 'app', publish => JSON::true }, POST => '/v1/notifications', { payload => {}, web_push => { title => $_[0] },
        routing => { audience => { type => 'USER', targets => ['u1'] }, retry => { ack_required => JSON::true }, escalate_after => 3600 } })->{json}{id};
}
sub escalate
{
    my ($id) = @_;
    $store->execute('ZADD', $store->of($id, 'escalations'), 1, "1$id:");
    wait_until('the escalation has taken place', sub { !defined $store->execute('ZSCORE', $store->of($id, 'escalations'), "1$id:") });
    return;
}
sub wait_done { wait_until('no Web Push is queued', sub { !grep { $store->execute('ZCARD', $_) } $store->keys('webpush') }); return }
sub titles { return join ', ', map { JSON::decode_json($_->{plain})->{notification}{title} } $service->requests('201/u1') }

http({ sub => 'u1' }, POST => '/v1/webpush/subscriptions', $service->subscription('201/u1'));
my $user = $gate->client('u1');
wait_until('the session is stored', sub { grep { $store->execute('SISMEMBER', $_, 'u1') } @{ $store->execute('KEYS', '*presence:*') } });

publish('First');
$user->wait_notifications(1);
wait_done();
is(titles(), '', 'a user with a session receives no Web Push');

$late->hold(presence => $late->script('was_present'));
my $id = publish('Alarm');
$late->wait_held('presence');
escalate($id);
$late->release('presence');
wait_done();
is(titles(), 'Alarm', 'the escalation is sent nevertheless');

done_testing();
